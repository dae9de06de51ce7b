# shellcheck shell=bash
# Sourced by ./run and by envs/setup in the project's root: what is here, and what is wanted here. No effects.

# Lists of programs and packages.
packages=(envs/system-packages.txt)
[[ -z ${FSAGE_TESTBED:-} ]] || packages+=(envs/testbed-packages.txt)

# The listed programs that are not on PATH, each with a space before it.
missing_programs() {
    local program _
    while read -r program _; do
        [[ $program == \#* ]] || command -v "$program" >/dev/null || printf ' %s' "$program"
    done < <(cat "${packages[@]}")
}

# True if system packages may be installed.
may_install() { ((EUID == 0)) && [[ ${FSAGE_INSTALL:-} != no ]]; }

# The environment that is wanted, as text: where it is, the digest of what it is made from.
wanted_environment() {
    local digest
    digest=$(cat envs/requirements.lock pyproject.toml | sha256sum)
    echo "$1 ${digest%% *}"
}

# What development wants beside it, as text.
wanted_development() {
    local digest
    digest=$(sha256sum <envs/development.lock)
    echo "development ${digest%% *}"
}

# What could not be had (argument: the missing programs). It is part of the stamp, so that who starts again as root
# after a set-up that could not install gets another one, and who has what can be had does not.
wanted_programs() {
    if [[ -z $1 ]]; then
        echo "every program is here"
    elif may_install; then
        echo "installing did not bring$1"
    else
        echo "not installed:$1"
    fi
}
