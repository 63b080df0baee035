"""qsub, qstat, qselect, qdel, qhold, qrls, qalter, pbsnodes, pbsdsh and qmgr of OpenPBS 23.06 or TORQUE 6, as far as pilots need them.

It follows ../emulated.py, one program under those names, in the folder `bin`; beside it `form` says which system it is, and `down`
that its server is away. Options, outputs and exit codes are those of adapters/transcripts. There is no daemon:
whoever calls schedules, and each job has a process that waits for it. Other than the real ones it lets root
submit, and waits less before it kills (KILL_DELAY). Nothing here is OpenPBS's or TORQUE's own.

Files beside it change what it does: `hang`, the server accepts connections and answers nobody; `old`, it is TORQUE 4,
whose XML has no declaration; `strangers`, with two numbers: so many other jobs has our user, and so many have others;
`closed`, the queues take no more jobs of our user; `hog`, with a word: the memory of a job is over its limit (OpenPBS's
`$enforce mem`) as long as a process of it has that word in its command line (`WORD N`: more than N of them); `reinstalled`, jobs that are no pilots are three days older; `prologue`, it fails on each node; `history`, OpenPBS keeps the records of jobs that have ended. There are as many
servers as are named, by `PBS_DEFAULT` or in ids, with the same nodes; `away-NAME`: that one does not answer. A
command of its own, `strike SIGNAL ID`, sends a signal to all processes of a running job at once, which OpenPBS does by
`qdel -W force`. `connections` gets a line for each connection to the server, of
which `qstat` makes one for each id.
"""
IS_TORQUE = FORM == "torque"
SERVER = "pbshead"
# The one that is asked where none is named.
ASKED = os.environ.get("PBS_DEFAULT") or SERVER
if IS_TORQUE:
    KILL_DELAY = 2
QUEUES = {
    "batch": {},
    "short": {"resources_max.walltime": "00:10:00"},
    "disabled": {"enabled": "False"},
}
USAGE = {
    "qsub": "usage: qsub [-a date_time] [-A account_string] ...",
    "qstat": "usage: \nqstat [-f] ...",
    "qdel": "usage: qdel ...",
}
# The systems' own numbers, of which clients exit with the remainder by 256.
CODES = {
    "queue": (172, 170), "disabled": (175, 173), "limit": (190, 188), "value": (168, 166), "unknown": (153, 153),
    "state": (170, 168), "down": (111, 162),
}


def fail(code, words):
    print(words, file=sys.stderr)
    sys.exit(CODES[code][0 if IS_TORQUE else 1] if isinstance(code, str) else code)


def strangers():
    """Jobs that are none of ours, half of which wait: those of our user, then those of others."""
    path = f"{ROOT}/strangers"
    ours, others = map(int, open(path).read().split()) if os.path.exists(path) else (0, 0)
    for n in range(ours + others):
        yield f"{100000 + n}.{SERVER}", dict(
            id=f"{100000 + n}.{SERVER}", name=f"stranger{n}", owner=USER if n < ours else "bob", queue="batch", cores=1,
            nodes=1, walltime=3600, state="RQ"[n % 2], hold="n", workdir="/", created=0, arguments="", comment="",
            on=["elsewhere"],
        )


def home(job):
    """The server to which a job was submitted."""
    return job["id"].partition(".")[2]


def place(job):
    """The server on which it is."""
    return job.get("moved_to") or home(job)


def reach(server):
    if is_marked(f"away-{server}"):
        refused = "Connection refused"
        fail(255, f"{refused}\n{PROGRAM}: cannot connect to server {server} (errno=15010)")


def parts(id):
    """`NUMBER[.SERVER][@ASKED]`: the whole id, and the server that is asked for it."""
    id, _, asked = id.partition("@")
    id = whole(id)
    asked = asked or (ASKED if IS_TORQUE else id.partition(".")[2])
    reach(asked)
    return id, asked


def connect(n=1):
    """A server with many jobs takes its time to let somebody in."""
    with open(f"{ROOT}/connections", "a") as file:
        file.write(f"{PROGRAM}\n" * n)
    if os.path.exists(f"{ROOT}/strangers"):
        time.sleep(0.1 * n)


class Store(Kept):
    def schedule(self):
        """Starts the jobs that have room, the oldest first."""
        for job in self.jobs.values():
            if job["state"] != "Q":
                continue
            free = dict(NODES)
            for other in self.jobs.values():
                if other["state"] in "RE":
                    for node in other["on"]:
                        free[node] -= other["cores"]
            fitting = [node for node, cores in free.items() if cores >= job["cores"]]
            if job["queue"] in self.state["stopped"]:
                job["comment"] = "Not Running: Queue not started."
            elif sum(cores >= job["cores"] for cores in NODES.values()) < job["nodes"]:
                job["comment"] = "Can Never Run: Insufficient amount of resource: ncpus (R: 10000 A: 4 T: 4)"
            elif len(fitting) < job["nodes"]:
                job["comment"] = (
                    "Not Running: Not enough of the right type of nodes are available\n" if IS_TORQUE
                    else f"Not Running: Insufficient amount of resource: ncpus (R: {job['cores']} A: 0 T: 4)"
                )
            else:
                job.update(state="R", on=fitting[: job["nodes"]], start=time.time())
                when = time.strftime("%a %b %d at %H:%M")
                job["comment"] = (
                    f"Job started on {when}" if IS_TORQUE
                    else f"Job run at {when} on ({job['on'][0]}:ncpus={job['cores']})"
                )
                job["mom"] = start(job)


def run(job):
    os.umask(0o077)
    spool = f"{ROOT}/{job['id']}.OU"
    program = begin(
        [job["shell"], f"{ROOT}/{job['id']}.SC"], cwd=os.environ["HOME"], env=environment(job),
        stdout=open(spool, "w"), stderr=subprocess.STDOUT,
    )
    with Store() as store:
        store.jobs[job["id"]]["leader"] = program.pid
    code = attend(program, lambda: wait_within_limits(program, job))
    if isinstance(code, Exceeded):
        code = 271 if IS_TORQUE else -27
    elif isinstance(code, Exception):
        code = 271 if isinstance(code, Cancelled) else (-11 if IS_TORQUE else -29)
    with Store() as store:
        store.jobs[job["id"]].update(state="C" if IS_TORQUE else "F", code=code, end=time.time())
        store.schedule()


def wait_within_limits(program, job):
    ends = time.time() + job["walltime"]
    while True:
        if is_marked("prologue"):
            strike(program.pid, signal.SIGKILL)
            program.wait()
            return -2
        if is_marked("hog") and exceeds(program.pid, open(f"{ROOT}/hog").read()):
            raise Exceeded
        try:
            return program.wait(timeout=0.2)
        except subprocess.TimeoutExpired:
            if time.time() > ends:
                raise


def exceeds(leader, said):
    """`WORD`, or `WORD N`: whether more than so many processes have the word."""
    word, _, n_most = said.partition(" ")
    n = 0
    for pid in family(leader):
        try:
            n += word.encode() in open(f"/proc/{pid}/cmdline", "rb").read()
        except OSError:
            continue
    return n > int(n_most or 0)


def environment(job):
    variables = {
        "HOME": os.environ["HOME"], "LOGNAME": USER, "USER": USER, "SHELL": "/bin/bash", "LANG": "C.UTF-8",
        "PATH": f"/usr/local/bin:/usr/bin:/bin:{ROOT}/bin", "PBS_ENVIRONMENT": "PBS_BATCH", "PBS_JOBID": job["id"],
        "PBS_JOBNAME": job["name"], "PBS_QUEUE": job["queue"], "PBS_O_HOST": SERVER, "PBS_O_WORKDIR": job["workdir"],
        "PBS_NODENUM": "0", "PBS_TASKNUM": "1",
    }
    if IS_TORQUE:
        variables.update(
            PBS_NP=str(job["cores"] * job["nodes"]), PBS_NUM_NODES=str(job["nodes"]), PBS_NUM_PPN=str(job["cores"]),
            PBS_WALLTIME=str(job["walltime"]), PBS_VERSION="TORQUE-master", PBS_O_SERVER=SERVER, PBS_VNODENUM="0",
        )
    else:
        variables.update(NCPUS=str(job["cores"]), OMP_NUM_THREADS=str(job["cores"]), PBS_JOBDIR=os.environ["HOME"])
    return variables


def options(letters, usage):
    try:
        found, rest = getopt.getopt(sys.argv[1:], letters)
    except getopt.GetoptError as error:
        words = f"{PROGRAM}: invalid option -- '{error.opt}'"
        fail(2, f"[a single - is not a valid option]\n\n{USAGE[usage]}" if IS_TORQUE and PROGRAM == "qsub"
             else f"{words}\n{USAGE[usage]}")
    return found, rest


def seconds(text):
    if not re.fullmatch(r"\d+(:\d+){0,2}", text):
        refuse("value", "Illegal attribute or resource value for Resource_List.walltime",
               "Illegal attribute or resource value Resource_List.walltime")
    total = 0
    for part in text.split(":"):
        total = total * 60 + int(part)
    return total


def clock(total):
    return f"{total // 3600:02}:{total // 60 % 60:02}:{total % 60:02}"


def refuse(code, torque, openpbs):
    fail(code, f"qsub: submit error ({torque})" if IS_TORQUE else f"qsub: {openpbs}")


def qsub():
    torque, openpbs = "a:A:b:c:C:d:D:e:F:hIj:J:k:K:l:L:m:M:N:o:p:P:q:r:S:t:T:u:v:VW:w:xXz", \
        "a:A:c:C:e:fhIj:J:k:l:m:M:N:o:p:P:q:r:R:S:u:v:VW:Xz"
    found, rest = options(torque if IS_TORQUE else openpbs, "qsub")
    script = open(rest[0]).read() if rest else sys.stdin.read()
    given = dict(found)
    name, queue = given.get("-N", "STDIN"), given.get("-q", "batch")
    if not re.fullmatch(r"\S+", name):
        fail(2, ("[qsub: illegal -N value]\n\n" if IS_TORQUE else "qsub: illegal -N value\n") + USAGE["qsub"])
    resources = [item for option, value in found if option == "-l" for item in split_resources(value)]
    cores, nodes, walltime, kinds = 1, 1, 3600, set()
    for key, value in resources:
        kinds.add(key)
        if key == "walltime":
            walltime = seconds(value)
        elif key == "nodes" or (key == "select" and not IS_TORQUE):
            # TORQUE takes `select` silently, and the job has one core.
            words = value.split(":")
            nodes = int(words[0])
            sizes = [word.split("=")[1] for word in words[1:] if re.match(r"(ppn|ncpus)=", word)]
            cores = int(sizes[0]) if sizes else 1
        elif key not in ("mem", "place", "ncpus", "select"):
            refuse(189 if IS_TORQUE else 187, f"Unknown resource type  Resource_List.{key}",
                   f"Unknown resource Resource_List.{key}")
    if not IS_TORQUE and {"select", "nodes"} <= kinds:
        fail(6, "qsub: Cannot be used with select or place: nodes")
    if queue not in QUEUES:
        refuse("queue", "Unknown queue MSG=requested queue not found", "Unknown queue")
    if os.path.exists(f"{ROOT}/closed"):
        refuse(228 if IS_TORQUE else 38, "Maximum number of jobs already in queue for user MSG=total number of current user's "
               f"jobs exceeds the queue limit: user {USER}@{SERVER}, queue {queue}",
               f"would exceed queue {queue}'s per-user limit")
    if QUEUES[queue].get("enabled") == "False":
        refuse("disabled", f"Queue is not enabled MSG=queue is disabled: user {USER}@{SERVER}, queue {queue}",
               "Queue is not enabled")
    limit = QUEUES[queue].get("resources_max.walltime")
    if limit and walltime > seconds(limit):
        refuse("limit", "Job exceeds queue resource limits MSG=cannot satisfy queue max walltime requirement",
               "Job violates queue and/or server resource limits")
    if IS_TORQUE and sum(size >= cores for size in NODES.values()) < nodes:
        refuse("limit", "Job exceeds queue resource limits MSG=cannot locate feasible nodes (nodes file is empty, "
               "all systems are busy, or no nodes have the requested feature)", "")
    with Store() as store:
        job = dict(
            id=f"{store.state['next']}.{ASKED}", name=name, queue=queue, cores=cores, nodes=nodes, walltime=walltime,
            shell=given.get("-S", "/bin/sh"), state="H" if "-h" in given else "Q", hold="u" if "-h" in given else "n",
            workdir=os.getcwd(), created=time.time(), arguments=" ".join(sys.argv[1:]), comment="", on=[],
        )
        store.state["next"] += 1
        with open(f"{ROOT}/{job['id']}.SC", "w") as file:
            file.write(script)
        store.jobs[job["id"]] = job
        store.schedule()
    print(job["id"])


def split_resources(text):
    """`walltime=60,select=1:ncpus=2` as pairs."""
    return [tuple(item.split("=", 1)) for item in text.split(",")]


def attributes(job):
    """What both systems tell of a job, in their order."""
    when = lambda moment: time.strftime("%a %b %e %H:%M:%S %Y", time.localtime(moment))
    runs = job["state"] not in "QHW"
    yield "Job_Name", job["name"]
    yield "Job_Owner", f"{job.get('owner', USER)}@{SERVER}"
    yield "job_state", job["state"]
    yield "queue", job["queue"]
    yield "server", place(job)
    yield "Checkpoint", "u"
    # As if the server had been installed again since, and gave numbers out from the first one.
    is_other = is_marked("reinstalled") and not job["name"].startswith("pf")
    yield "ctime", when(job["created"] - (3 * 24 * 3600 if is_other else 0))
    yield "Error_Path", f"{SERVER}:{job['workdir']}/{job['name']}.e{job['id'].split('.')[0]}"
    if runs:
        slots = (lambda n: f"0-{n - 1}" if n > 1 else "0") if IS_TORQUE else (lambda n: f"0*{n}" if n > 1 else "0")
        yield "exec_host", "+".join(f"{node}/{slots(job['cores'])}" for node in job["on"])
    yield "Hold_Types", job["hold"]
    yield "Output_Path", f"{SERVER}:/dev/null"
    yield "Rerunable", "False"
    if IS_TORQUE:
        yield "Resource_List.nodes", f"{job['nodes']}:ppn={job['cores']}"
    else:
        yield "Resource_List.ncpus", str(job["nodes"] * job["cores"])
        yield "Resource_List.select", f"{job['nodes']}:ncpus={job['cores']}"
    yield "Resource_List.nodect", str(job["nodes"])
    yield "Resource_List.walltime", clock(job["walltime"])
    path = "/opt/torque/bin:/opt/torque/sbin:/usr/local/bin:/usr/bin:/bin" if IS_TORQUE else "/opt/pbs/bin:/usr/bin:/bin"
    # A shell function has line ends, which are shown as they are.
    yield "Variable_List", (
        f"PBS_O_HOME={os.environ['HOME']},PBS_O_LANG=C.UTF-8,PBS_O_LOGNAME={USER},PBS_O_PATH={path},"
        "BASH_FUNC_greet%%=() {  if true; then\n echo hello; else\n echo bye; fi\n},PBS_O_QUEUE=batch"
    )
    if job["state"] == "F":
        # Deleted, finished, failed.
        yield "substate", "91" if "terminated" in job else "92" if job.get("code") == 0 else "93"
        how = f"terminated by {job['terminated']}" if "terminated" in job else "finished" if job.get("code") == 0 else "failed"
        yield "comment", f"{job['comment']} and {how}"
    elif job["comment"]:
        yield "comment", job["comment"]
    if "substate" in job:
        yield "substate", job["substate"]
    if "code" in job:
        yield "exit_status" if IS_TORQUE else "Exit_status", str(job["code"])
    yield "submit_args" if IS_TORQUE else "Submit_arguments", job["arguments"]


def folded(name, value):
    """A line as `qstat -f` folds it: after a comma where there is one, else within words."""
    if name != "Variable_List":
        value = value.replace("\n", "\n\t" if IS_TORQUE else "^J")
    line, lines = f"    {name} = " + value, []
    while "\n" not in line[:80] and len(line) > 79:
        cut = line.rfind(",", 1, 79) + 1 or 79
        lines.append(line[:cut])
        line = "\t" + line[cut:]
    return "\n".join(lines + [line])


def as_text(kind, name, pairs):
    print("\n".join([f"{kind}: {name}"] + [folded(*pair) for pair in pairs]) + "\n")


def as_xml(job):
    groups = {}
    for name, value in attributes(job):
        group, _, inner = name.partition(".")
        # Not that of `xml.sax`: its import takes longer than all else here, at each command.
        value = value.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        groups[group] = groups.get(group, "") + (f"<{inner}>{value}</{inner}>" if inner else value)
    return f"<Job><Job_Id>{job['id']}</Job_Id>" + "".join(f"<{n}>{v}</{n}>" for n, v in groups.items()) + "</Job>"


def qstat():
    if "--version" in sys.argv:
        torque = "version: 4.2.10" if os.path.exists(f"{ROOT}/old") else "Version: master\nCommit: 34ff845417cc"
        print(torque if IS_TORQUE else "pbs_version = 23.06.06", file=sys.stderr if IS_TORQUE else sys.stdout)
        return
    away()
    given, ids = options("aefinqrstu:xBQ1W:" if IS_TORQUE else "aefinqrstu:xBQ1wF:D:JpEHTGM", "qstat")
    flags = {option for option, _ in given}
    if "-B" in flags:
        as_text("Server", ASKED, [("server_state", "Active"), ("default_queue", "batch")])
        return
    by_id = not flags & {"-u", "-i", "-Q"} and bool(ids)
    connect(len(ids) + 1 if by_id else 1)
    with Store() as store:
        store.schedule()
        if "-Q" in flags:
            for name, limits in QUEUES.items():
                if ids and name not in ids:
                    continue
                started = "False" if name in store.state["stopped"] else "True"
                jobs = [*store.jobs.values(), *(job for _, job in strangers())]
                n = sum(job["queue"] == name and job["state"] == "Q" for job in jobs)
                count = f"Transit:0 Queued:{n} Held:0 Waiting:0 Running:0 Exiting:0 "
                as_text("Queue", name, {"queue_type": "Execution", "enabled": "True", "started": started,
                                        "state_count": count, **limits}.items())
            return
        if flags & {"-u", "-i"}:
            table(store, dict(given), ids)
        else:
            show(store, flags, ids)


def table(store, given, queues):
    """`qstat -u USER` and `qstat -i`: of jobs that one may see, on `@SERVER` if that is named."""
    named = [queue[1:] for queue in queues if queue.startswith("@")]
    server = named[0] if named else ASKED
    reach(server)
    queues = [queue for queue in queues if not queue.startswith("@")]
    jobs = [
        job for job in [*store.jobs.values(), *(job for _, job in strangers() if sees(job))]
        if job["state"] != "F" and given.get("-u", job.get("owner", USER)) == job.get("owner", USER)
        and (job["state"] in "QHW" or "-i" not in given) and (not queues or job["queue"] in queues)
        and place(job) == server
    ]
    widths = [24, 11, 8, 16, 6, 5, 6, 9, 9, 1, 9] if IS_TORQUE else \
        [30, 15, 15, 15, 8, 4, 5, 6, 5, 1, 5] if "-w" in given else [15, 8, 8, 10, 6, 3, 3, 6, 5, 1, 5]
    if not jobs:
        return
    heads = ["Job ID", "Username", "Queue", "Jobname", "SessID", "NDS", "TSK", "Memory", "Time", "S", "Time"]
    line = lambda fields: " ".join(f"{field[:width]:{width}}" for field, width in zip(fields, widths))
    print(f"\n{server}: \n{' ' * 60}Req'd  Req'd   Elap\n{line(heads)}\n{' '.join('-' * width for width in widths)}")
    for job in jobs:
        print(line([job["id"], job.get("owner", USER), job["queue"], job["name"], "--", str(job["nodes"]),
                    str(job["nodes"] * job["cores"]), "--", clock(job["walltime"])[: 8 if IS_TORQUE else 5], job["state"],
                    "--"]))


def sees(job):
    """TORQUE shows nobody the jobs of others, as long as `query_other_jobs` is not set."""
    return not IS_TORQUE or job.get("owner", USER) == USER


def show(store, flags, ids):
    # Without history OpenPBS knows nothing of jobs that have ended; TORQUE keeps them for a while.
    has_history = not IS_TORQUE and "-x" in flags and is_marked("history")
    if not IS_TORQUE and "-x" in flags and not has_history:
        print("qstat: PBS is not configured to maintain job history " + " ".join(ids), file=sys.stderr)
        return
    known = {id: job for id, job in [*store.jobs.items(), *strangers()]
             if (job["state"] != "F" or has_history or job.get("moved_to")) and sees(job)}
    jobs, unknown = [], []
    for id in ids:
        id, asked = parts(id)
        job = found(known.get(id), asked, has_history)
        jobs, unknown = (jobs + [job], unknown) if job else (jobs, unknown + [id])
    ids = [whole(id.partition("@")[0]) for id in ids]
    if not ids:
        reach(ASKED)
        jobs = [job for job in known.values() if place(job) == ASKED and (job["state"] != "F" or has_history)]
    for id in unknown:
        print(f"qstat: Unknown Job Id {'Error ' if IS_TORQUE else ''}{id}", file=sys.stderr)
    if IS_TORQUE and "-x" in flags:
        # A document for each id, or one of all jobs; TORQUE 4 says nothing of none, and declares nothing.
        is_old = os.path.exists(f"{ROOT}/old")
        for part in ([[job] for job in jobs] if ids else [jobs] if jobs or not is_old else []):
            print("" if is_old else '<?xml version="1.0"?>')
            print("<Data>" + "".join(map(as_xml, part)) + "</Data>")
    else:
        for job in jobs:
            as_text("Job Id", job["id"], attributes(job))
    # TORQUE's is the code of the last.
    if (ids and ids[-1] in unknown) if IS_TORQUE else unknown:
        sys.exit(153)


def found(job, asked, has_history):
    """What a server says of a job. Of one that it has moved its history says so; without, commands follow the job."""
    if job is None or asked not in (home(job), place(job)):
        return None
    if asked != place(job) and has_history:
        where, is_over = place(job), job["state"] == "F"
        comment = f'Job finished at "{where}"' if is_over else f'Job has been moved to "batch@{where}"'
        return {**job, "state": "M", "substate": "92" if is_over else "94", "comment": comment, "moved_to": None,
                "queue": f"batch@{where}"}
    reach(place(job))
    return None if job["state"] == "F" and not has_history else job


def whole(id):
    return id if "." in id else f"{id}.{ASKED}"


def qselect():
    away()
    given = dict(options("a:A:c:h:l:N:p:q:r:s:u:x", "qstat")[0])
    connect()
    queue, _, server = given.get("-q", "").partition("@")
    with Store() as store:
        store.schedule()
        for id, job in [*store.jobs.items(), *strangers()]:
            # TORQUE lists jobs that have ended, too, for as long as it keeps them.
            states = given.get("-s", "QRHWTEC" if IS_TORQUE else "QRHWTE")
            is_asked = (
                job["state"] in states and (queue or job["queue"]) == job["queue"] and sees(job)
                and place(job) == (server or ASKED)
                and given.get("-u", job.get("owner", USER)) == job.get("owner", USER)
            )
            if is_asked:
                print(id)


def qdel():
    away()
    given, ids = options("m:W:pxt:", "qdel")
    code = 0
    connect(len(ids))
    with Store() as store:
        for named in ids:
            id, asked = parts(named)
            job = store.jobs.get(id)
            # TORQUE's follows no job to the server that it was moved to.
            is_known = job is not None and asked in ([place(job)] if IS_TORQUE else [home(job), place(job)])
            id = id if "." in named else named
            if not is_known or job["state"] == "F":
                words = f"qdel: nonexistent job id: {id}" if IS_TORQUE else f"qdel: Unknown Job Id {whole(id)}"
                code = 153
            elif job["state"] == "C":
                words = f"qdel: Request invalid for state of job MSG=invalid state for job - COMPLETE {id}"
                code = 170
            else:
                job["terminated"] = f"{USER}@{SERVER}"
                if job["state"] == "R" and ("-W", "force") in given and "leader" in job:
                    strike(job["leader"], signal.SIGKILL)
                elif job["state"] == "R":
                    os.kill(job["mom"], signal.SIGTERM)
                else:
                    job.update(state="C" if IS_TORQUE else "F", end=time.time())
                continue
            print(words, file=sys.stderr)
    sys.exit(code)


def strike_job():
    """`strike SIGNAL ID`"""
    name, id = sys.argv[1:]
    with Store() as store:
        leader = store.jobs[whole(id)]["leader"]
    strike(leader, getattr(signal, f"SIG{name}"))


def qhold():
    change(lambda job: job["state"] in "QW" and job.update(state="H", hold="u"))


def qrls():
    change(lambda job: job["state"] == "H" and job.update(state="Q", hold="n"))


def qalter():
    """`-N NAME`, by which a job is renamed."""
    change(lambda job: job.update(name=sys.argv[2]))


def qmove():
    """`@SERVER ID…`"""
    destination = sys.argv.pop(1).partition("@")[2]
    change(lambda job: job.update(moved_to=destination))


def change(what):
    away()
    connect()
    with Store() as store:
        for id in sys.argv[1:]:
            if whole(id) in store.jobs:
                what(store.jobs[whole(id)])
        store.schedule()


def pbsnodes():
    away()
    with Store() as store:
        for node, cores in NODES.items():
            jobs = [job for job in store.jobs.values() if job["state"] == "R" and node in job["on"]]
            used = sum(job["cores"] for job in jobs)
            print(f"{node}\n     state = {'job-exclusive' if used == cores else 'free'}")
            if IS_TORQUE:
                print(f"     np = {cores}\n     ntype = cluster")
                if jobs:
                    print("     jobs = " + ",".join(f"0-{job['cores'] - 1}/{job['id']}" for job in jobs))
                print(f"     status = opsys=linux,physmem=4096000kb,ncpus={cores},state=free\n")
            else:
                print(f"     ntype = PBS\n     resources_available.mem = 4096000kb")
                print(f"     resources_available.ncpus = {cores}\n     resources_assigned.ncpus = {used}\n")


def pbsdsh():
    """Begins a program on each node of the job, without input, and waits for all of them."""
    given, program = getopt.getopt(sys.argv[1:], "c:e:n:h:osuv" if IS_TORQUE else "c:n:sov")
    with Store() as store:
        job = store.jobs[os.environ["PBS_JOBID"]]
    # A line of the node file: in TORQUE a core's, here in OpenPBS a node's, as the adapter asks.
    n_tasks = job["nodes"] if not IS_TORQUE or ("-u", "") in given else job["nodes"] * job["cores"]
    tasks = [
        # They get the job's environment, not that of its script, and write elsewhere.
        subprocess.Popen(program, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                         env={**environment(job), "PBS_NODENUM": str(n)})
        for n in range(n_tasks)
    ]
    for task in tasks:
        task.wait()


def qmgr():
    """`-c 'set queue NAME started = False'`, by which operators stop a queue."""
    away()
    queue, value = re.fullmatch(r"set queue (\w+) started = (True|False)", sys.argv[2]).groups()
    with Store() as store:
        store.state["stopped"] = [queue] if value == "False" else []
        store.schedule()


def away():
    hang_if_told()
    if not os.path.exists(f"{ROOT}/down"):
        return
    refused = "Connection refused"
    if IS_TORQUE:
        words = f"\nUnable to communicate with {SERVER}(10.77.0.1)\nCannot connect to specified server host '{SERVER}'.\n"
        if PROGRAM == "pbsnodes":
            fail(1, f"{words}pbsnodes: cannot connect to server {SERVER}, error=111 ({refused})")
        last = f"{PROGRAM}: cannot connect to server {SERVER} (errno=111) {refused}"
        fail(111, f"{words * 3}{last}\nqstat: Error (111 - {refused}) " if PROGRAM == "qstat" else words + last)
    if PROGRAM == "pbsnodes":
        fail(1, f"{refused}\npbsnodes: cannot connect to server {SERVER}, error=15010")
    last = f"Couldn't connect to cluster: {SERVER}" if PROGRAM == "qdel" else \
        f"{PROGRAM}: cannot connect to server {SERVER} (errno=15010)"
    fail(255 if PROGRAM == "qstat" else 162, f"{refused}\n{last}")


def main():
    if PROGRAM == "qsub":
        away()
    {"qsub": qsub, "qstat": qstat, "qselect": qselect, "qdel": qdel, "pbsnodes": pbsnodes, "pbsdsh": pbsdsh,
     "qmgr": qmgr, "qhold": qhold, "qmove": qmove, "qrls": qrls, "qalter": qalter, "strike": strike_job}[PROGRAM]()
