# What emulators of batch systems begin with: where they are, the jobs as files, and the process that waits for
# one of them. `emulated.rs` puts it before their own lines, of which it needs `run`: what a job's process does, and
# `main`: what a program of its name does.
import fcntl, getopt, json, os, pwd, re, shutil, signal, subprocess, sys, time

PROGRAM = os.path.basename(sys.argv[0])
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(sys.argv[0])))
FORM = open(f"{ROOT}/form").read().strip()
USER = pwd.getpwuid(os.getuid()).pw_name
NODES = {"n1": 2, "n2": 2}
# Seconds from SIGTERM to SIGKILL; a file `kill_delay` says another number.
KILL_DELAY = 10


class Kept:
    """Jobs, kept as files, with everybody else kept out."""

    def __enter__(self):
        self.lock = open(f"{ROOT}/lock", "a")
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        path = f"{ROOT}/jobs.json"
        self.state = json.load(open(path)) if os.path.exists(path) else {"next": 1, "stopped": [], "jobs": {}}
        self.jobs = self.state["jobs"]
        return self

    def __exit__(self, *_):
        with open(f"{ROOT}/jobs.new", "w") as file:
            json.dump(self.state, file)
        os.rename(f"{ROOT}/jobs.new", f"{ROOT}/jobs.json")
        fcntl.flock(self.lock, fcntl.LOCK_UN)


class Cancelled(Exception):
    pass


class Exceeded(Cancelled):
    """It was ended for what it used."""


def is_marked(name):
    return os.path.exists(f"{ROOT}/{name}")


def kill_delay():
    return float(open(f"{ROOT}/kill_delay").read()) if is_marked("kill_delay") else KILL_DELAY


def hang_if_told():
    """A server that hangs accepts connections and answers nobody."""
    if is_marked("hang"):
        time.sleep(3600)


def start(job):
    """Begins the process that runs a job and waits for it; gives its id."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    pid = os.fork()
    if pid:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        return pid
    os.setsid()
    null = os.open("/dev/null", os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    try:
        run(job)
    finally:
        os._exit(0)


def begin(argv, **more):
    """Begins a job's program, in a session of its own."""
    return subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, start_new_session=True,
        # The signal that ends jobs is kept from us until we can hear it, and not from the job.
        preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, []), **more,
    )


def attend(program, wait):
    """What `wait` gives when a program has ended; one that takes too long or is cancelled is ended, and that given."""
    def cancel(*_):
        raise Cancelled

    members = set()
    try:
        signal.signal(signal.SIGTERM, cancel)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        ended = wait()
    except (Cancelled, subprocess.TimeoutExpired) as why:
        ended = why
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        # What watches memory signals all processes, in whichever sessions.
        members = family(program.pid) if isinstance(why, Exceeded) else set()
        send(members, signal.SIGTERM)
        end_session(program.pid, signal.SIGTERM)
        try:
            program.wait(timeout=kill_delay())
        except subprocess.TimeoutExpired:
            pass
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    send(members, signal.SIGKILL)
    end_session(program.pid, signal.SIGKILL)
    program.wait()
    return ended


def processes():
    """Each process, with its parent and its session."""
    for entry in os.listdir("/proc"):
        try:
            fields = open(f"/proc/{entry}/stat").read().rsplit(")", 1)[1].split()
            yield int(entry), int(fields[1]), int(fields[3])
        except (OSError, IndexError, ValueError):
            continue


def end_session(leader, number):
    send((pid for pid, _, session in processes() if session == leader), number)


def send(pids, number):
    for pid in pids:
        try:
            os.kill(pid, number)
        except OSError:
            continue


def family(leader):
    """The program of a job and all that it has begun, in whichever sessions: a memory killer, a node that is booted or
    a forced `qdel` signals all of them at once."""
    found, n_before = {leader}, 0
    while len(found) > n_before:
        n_before = len(found)
        found |= {pid for pid, parent, session in processes() if parent in found or session in found}
    return found


def strike(leader, number):
    """Signals all processes of a job. Each is stopped before, so that none sees another end."""
    struck = family(leader)
    send(struck, signal.SIGSTOP)
    struck |= family(leader)
    send(struck, number)
    send(struck, signal.SIGCONT)


