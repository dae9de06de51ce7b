"""A cluster on one machine: hosts in namespaces of their own, with sshd, munge and a real Slurm.

Everything lives in one outer network, mount, process and host name namespace, whose first process (login.sh) is tied
to the process that made the testbed: when either ends, however it ends, nothing of it is left.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).parent
NETWORK = "10.77.0"
PR_SET_PDEATHSIG = 1  # prctl(2)
PROGRAMS = ("ip", "munged", "slurmctld", "slurmd", "sbatch", "sshd", "ssh-keygen", "unshare", "nsenter")

SSHD = """\
HostKey {folder}/ssh/host_key
PidFile none
AuthorizedKeysFile {folder}/ssh/%u.pub
StrictModes no
PasswordAuthentication no
PermitRootLogin prohibit-password
UsePAM no
UseDNS no
PrintMotd no
PrintLastLog no
MaxStartups 200
MaxSessions 100
"""
SSH = """\
Host *
  User root
  IdentityFile {folder}/ssh/key
  UserKnownHostsFile {folder}/ssh/known_hosts
  StrictHostKeyChecking yes
  LogLevel ERROR
"""
# Times are short so that tests are: a lost node is noticed after 5 to 10 seconds.
SLURM = """\
ClusterName=testbed
SlurmctldHost=login({network}.254)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CryptoType=crypto/munge
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/host/slurmd.pid
StateSaveLocation={folder}/slurmctld
SlurmdSpoolDir={folder}/slurmd.%n
TmpFS=/run/host
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,sched_interval=2,bf_interval=2
DefMemPerCPU=100
EnforcePartLimits=ALL
ReturnToService=2
SlurmctldTimeout=10
SlurmdTimeout=5
InactiveLimit=0
KillWait=2
OverTimeLimit=0
MinJobAge=600
MessageTimeout=5
TCPTimeout=2
SlurmdParameters=config_overrides
NodeName=DEFAULT CPUs=4 RealMemory=2000
NodeName={names[0]} Weight=9 # the tests' target is there; jobs rather go elsewhere
NodeName={others}
PartitionName=batch Nodes=ALL Default=YES MaxTime=INFINITE OverSubscribe=NO
"""


def missing() -> list[str]:
    """Programs without which there is no testbed."""
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    return [name for name in PROGRAMS if not shutil.which(name, path=path)]


def wait_for(condition: Callable[[], object], seconds: float, what: str) -> None:
    """Wait until `condition()` holds. Raises TimeoutError saying for `what` was waited."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds:g} s in vain: {what}")
        time.sleep(0.05)


class Testbed:
    """Hosts n1, n2, … (two or more) and the host `login`, on which commands run."""

    __test__ = False  # not a test, whatever its name begins with

    def __init__(
        self,
        folder: Path,
        hosts: int = 4,
        furnish: Callable[[Testbed], None] = lambda _: None,
    ) -> None:
        """`furnish`: called when there is `login` and no host yet; what it mounts there, hosts have too."""
        self.folder = folder
        self.furnish = furnish
        self.hosts = [f"n{number + 1}" for number in range(hosts)]
        self.daemons: dict[str, subprocess.Popen] = {}
        self.login: subprocess.Popen | None = None

    def __enter__(self) -> Testbed:
        try:
            self.configure()
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def configure(self) -> None:
        """Write all configuration into the folder."""
        for name in ("log", "ssh", "slurm", "slurmctld"):
            (self.folder / name).mkdir(parents=True)
        values = {
            "folder": self.folder,
            "network": NETWORK,
            "names": self.hosts,
            "others": ",".join(self.hosts[1:]),
        }
        addresses = {name: f"{NETWORK}.{number + 1}" for number, name in enumerate(self.hosts)}
        addresses["login"] = f"{NETWORK}.254"
        lines = ["127.0.0.1 localhost", *(f"{address} {name}" for name, address in addresses.items())]
        (self.folder / "hosts").write_text("\n".join(lines) + "\n")
        for name in ("key", "host_key"):
            command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / "ssh" / name]
            subprocess.run(command, check=True)
        (self.folder / "ssh/root.pub").write_bytes((self.folder / "ssh/key.pub").read_bytes())
        public = (self.folder / "ssh/host_key.pub").read_text()
        (self.folder / "ssh/known_hosts").write_text("".join(f"{name} {public}" for name in self.hosts))
        (self.folder / "ssh/config").write_text(SSH.format(**values))
        (self.folder / "ssh/sshd_config").write_text(SSHD.format(**values))
        (self.folder / "slurm/slurm.conf").write_text(SLURM.format(**values))
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)

    def start(self) -> None:
        """Make the namespaces, start all daemons, and wait until all hosts are idle."""
        namespaces = ["--net", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc"]
        self.login = subprocess.Popen(
            ["unshare", *namespaces, HERE / "login.sh", self.folder, *self.hosts],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=end_with_parent,
        )
        assert self.login.stdout
        if self.login.stdout.readline().strip() != "ready":
            raise RuntimeError("the testbed's namespaces could not be made")
        self.furnish(self)
        munge = [f"--key-file={self.folder}/munge.key", f"--seed-file={self.folder}/munge.seed"]
        self.daemon("munged", "munged", "--foreground", *munge, f"--log-file={self.folder}/log/munged.log")
        self.daemon("slurmctld", "slurmctld", "-D")
        for name in self.hosts:
            self.power_on(name)
        self.wait_until_idle(*self.hosts)

    def stop(self) -> None:
        """End everything: with the first process of the outer namespaces goes all that is in them."""
        if self.login is not None:
            self.login.kill()
            self.login.wait()
        for process in self.daemons.values():
            process.wait()

    def inside(self, *words: object, folder: Path = Path("/")) -> list[str]:
        """The command `words` on the host `login`, in `folder`."""
        assert self.login is not None
        children = Path(f"/proc/{self.login.pid}/task/{self.login.pid}/children").read_text().split()
        namespaces = ["--net", "--mount", "--uts", "--pid"]
        return ["nsenter", "--target", children[0], *namespaces, f"--wdns={folder}", "--", *map(str, words)]

    def run(self, *words: object) -> str:
        """Run a command on `login`; its output. Raises CalledProcessError."""
        return subprocess.run(self.inside(*words), check=True, capture_output=True, text=True, timeout=60).stdout

    def daemon(self, name: str, *words: object) -> None:
        """Start a daemon on `login`, its output in log/<name>."""
        with open(self.folder / "log" / name, "a") as log:
            self.daemons[name] = subprocess.Popen(
                self.inside(*words), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def end(self, name: str, number: int = signal.SIGKILL) -> None:
        """Signal a daemon, and wait for its end."""
        process = self.daemons.pop(name)
        os.killpg(process.pid, number)
        process.wait(timeout=20)

    def power_on(self, host: str) -> None:
        """Start a host: sshd and slurmd in namespaces of its own."""
        namespaces = ["--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        network = f"--net=/run/netns/{host}"  # `ip netns exec` would hide /sys/fs/cgroup, without which is no slurmd
        self.daemon(host, "nsenter", network, "unshare", *namespaces, HERE / "host.sh", self.folder, host)

    def power_off(self, host: str) -> None:
        """Take a host away without warning."""
        self.end(host)

    def restart_slurmctld(self) -> None:
        """Stop Slurm's controller and start it again; it keeps its jobs."""
        self.end("slurmctld", signal.SIGTERM)
        self.daemon("slurmctld", "slurmctld", "-D")

    def wait_until_idle(self, *hosts: str) -> None:
        """Wait until Slurm may use these hosts and no job runs on them."""

        def idle() -> bool:
            words = self.inside("sinfo", "-h", "-N", "-t", "idle", "-o", "%N")
            said = subprocess.run(words, capture_output=True, text=True)
            return set(hosts) <= set(said.stdout.split())

        wait_for(idle, 30, f"{', '.join(hosts)} to be idle; their logs are in {self.folder}/log")

    def jobs(self, state: str = "all") -> dict[str, str]:
        """Slurm's jobs in a state, e.g. "running", oldest first, each with its host."""
        lines = self.run("squeue", "-h", "-t", state, "-o", "%i %N").splitlines()
        jobs = [line.partition(" ") for line in lines]
        return {number: host for number, _, host in sorted(jobs, key=lambda job: int(job[0]))}

    def state_of(self, job: str) -> str:
        """What Slurm says of a job, e.g. "CANCELLED"."""
        return self.run("squeue", "-h", "-t", "all", "-j", job, "-o", "%T").strip()


def end_with_parent() -> None:
    """In a child: end when the process that started it ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
