# For bash: `source envs/completion.bash` completes `./run fsage ...`, as `fsage --install-completion` does for fsage.
_fsage_run() {
    local IFS=$'\n' # what fsage itself asks bash for
    [[ ${COMP_WORDS[1]:-} == fsage ]] || return
    local run=${COMP_WORDS[0]} words="${COMP_WORDS[*]:1}"
    mapfile -t COMPREPLY < <(
        COMP_WORDS=$words COMP_CWORD=$((COMP_CWORD - 1)) _FSAGE_COMPLETE=complete_bash "$run" fsage
    )
}
complete -o default -F _fsage_run run
