"""llsubmit, llq, llcancel, llhold, llclass, llstatus and llspawn.stdio of LoadLeveler, as far as pilots need them.

It follows ../emulated.py, one program under those names, in the folder `bin`; beside it `form` says which release it is, 3.5 or 5.1, `down`
that its central manager is away, `hang` that it answers nobody, `drained` that no machine starts anything. A command of
its own, `strike SIGNAL ID`, sends a signal to all processes of a running step at once. Options, outputs and exit codes are
those of the samples in adapters/transcripts/loadleveler, which are of public manuals and of programs that drove
LoadLeveler: no real one was ever seen. There is no daemon: whoever calls schedules, and each step has a process
that waits for it. Nothing here is LoadLeveler's own.

Guesses, as nothing public tells: the texts and exit codes of all failures but the last line of llsubmit's (their
numbers, 2512-9NN, are made up), what llcancel says of unknown steps (3.5 here: it refuses all of them; 5.1: it
says what it always says), that a central manager that is away makes llsubmit fail, that files are copied when they
are submitted (5.1 here; 3.5 runs them where they are), the signals of llcancel, and how long ended steps are shown.
Other than real ones it lets root submit, and waits less before it kills (KILL_DELAY).
"""
IS_NEW = FORM == "5.1"
SCHEDD, DOMAIN = "c1", ".example.org"
MEMORY_MB = 4000
# How long steps that have ended are shown.
KEPT = 2 if IS_NEW else 0
TASKS_LISTED_MAX = 128
# Hard and soft limit of time, slots.
CLASSES = {"batch": (None, None, 4), "short": (600, 540, 4), "closed": (None, None, 0)}
ACCOUNTS = {"", "lab"}
KEYWORDS = set(
    "executable arguments input output error initialdir job_name step_name class group account_no job_type node "
    "tasks_per_node total_tasks blocking task_geometry wall_clock_limit cpu_limit job_cpu_limit as_limit data_limit "
    "core_limit stack_limit rss_limit file_limit resources node_resources requirements preferences network.mpi "
    "node_usage environment notification notify_user restart checkpoint hold startdate user_priority shell comment "
    "image_size ll_res_id cluster_list island_count energy_policy_tag bg_size bg_shape bg_connectivity dependency "
    "queue".split()
)
LONG = {
    "I": "Idle", "NQ": "Not Queued", "H": "User Hold", "S": "System Hold", "HS": "User & System Hold", "R": "Running",
    "RP": "Remove Pending", "C": "Completed", "RM": "Removed", "CA": "Canceled", "TX": "Terminated",
}
ENDED = {"C", "RM", "CA", "TX"}


def fail(number, words, code=1):
    print(f"{PROGRAM}: 2512-{number} {words}", file=sys.stderr)
    if PROGRAM == "llsubmit":
        print("llsubmit: 2512-051 This job has not been submitted to LoadLeveler.", file=sys.stderr)
    sys.exit(code)


class Store(Kept):
    def free(self):
        free = dict(NODES)
        for step in self.jobs.values():
            for node in step["on"] if step["state"] in ("R", "RP") else []:
                free[node] -= step["tasks"]
        return free

    def schedule(self):
        """Starts the steps that have room, the oldest first."""
        for step in self.jobs.values():
            fitting = [node for node, slots in self.free().items() if slots >= step["tasks"]]
            is_open = not os.path.exists(f"{ROOT}/drained") and CLASSES[step["class"]][2] > 0
            if step["state"] == "I" and is_open and len(fitting) >= step["nodes"]:
                step.update(state="R", on=fitting[: step["nodes"]], start=time.time())
                step["starter"] = start(step)

    def shown(self):
        self.schedule()
        is_shown = lambda step: step["state"] not in ENDED or time.time() < step["end"] + KEPT
        return [step for step in self.jobs.values() if is_shown(step)]


def run(step):
    with open(f"{ROOT}/{step['id']}.hosts", "w") as file:
        file.writelines(f"{node}\n" for node in step["on"] for _ in range(step["tasks"]))
    program = begin(
        [step["shell"], step["cmd"]], cwd=step["initialdir"], env=environment(step),
        stdout=open(step["output"], "w"), stderr=open(step["error"], "w"),
    )
    with Store() as store:
        store.jobs[step["id"]]["leader"] = program.pid
    ended = attend(program, lambda: wait_within_limits(program, step))
    state, status = ("CA", signal.SIGTERM) if isinstance(ended, Cancelled) else ended
    with Store() as store:
        store.jobs[step["id"]].update(state=state, status=status, end=time.time())
        store.schedule()


def wait_within_limits(program, step):
    """Gives the state and the status as wait tells it."""
    hard, soft = step["limits"]
    try:
        code = program.wait(timeout=soft)
    except subprocess.TimeoutExpired:
        end_session(program.pid, signal.SIGXCPU)
        try:
            code = program.wait(timeout=None if hard is None else hard - soft)
        except subprocess.TimeoutExpired:
            return "TX", signal.SIGKILL
    return "C", (code << 8 if code >= 0 else -code)


def environment(step):
    """Of the submission's environment nothing comes along but what the file names."""
    tasks = [node for node in step["on"] for _ in range(step["tasks"])]
    variables = {
        "HOME": os.environ["HOME"], "LOGNAME": USER, "USER": USER, "SHELL": "/bin/bash",
        "PATH": f"/usr/local/bin:/usr/bin:/bin:{ROOT}/bin", "LOADL_STEP_ID": long_id(step["id"]),
        "LOADL_JOB_NAME": step["name"], "LOADL_STEP_NAME": "0", "LOADL_STEP_NUMBER": "0",
        "LOADL_STEP_CLASS": step["class"], "LOADL_STEP_TYPE": step["type"].upper(), "LOADL_STEP_OWNER": USER,
        "LOADL_STEP_INITDIR": step["initialdir"], "LOADL_STEP_COMMAND": step["cmd"], "LOADL_STEP_ACCT": step["account"],
        "LOADL_STEP_OUT": step["output"], "LOADL_STEP_ERR": step["error"], "LOADL_TOTAL_TASKS": str(len(tasks)),
        "LOADL_ACTIVE": "5.1.0.18" if IS_NEW else "3.5.1.16", "LOADLBATCH": "yes",
        "LOADL_HOSTFILE": f"{ROOT}/{step['id']}.hosts",
    }
    if len(tasks) <= TASKS_LISTED_MAX:
        variables["LOADL_PROCESSOR_LIST"] = " ".join(tasks)
    return {**step["environment"], **variables}


def long_id(id):
    return id.replace(SCHEDD, SCHEDD + DOMAIN, 1) if IS_NEW else id


def keywords(text):
    """Keywords of the first and only step; what follows its `queue` is the script."""
    found, lines, is_ended = {}, iter(text.split("\n")), False
    for line in lines:
        match = re.match(r"#\s*@\s*(.*)", line)
        if not match:
            continue
        statement = match.group(1)
        while statement.rstrip().endswith("\\"):
            statement = statement.rstrip()[:-1] + next(lines, "")
        keyword, _, value = (part.strip() for part in statement.partition("="))
        keyword = keyword.lower()
        if keyword not in KEYWORDS:
            fail(901, f'Syntax error: "{keyword}" is not a keyword.')
        if keyword == "queue":
            if is_ended:
                fail(902, "Only jobs of one step are emulated.")
            is_ended = True
        elif not is_ended:
            found[keyword] = value
    if not is_ended:
        fail(903, "The job command file has no queue statement.")
    return found


def seconds(text):
    if text in ("", "unlimited"):
        return None
    match = re.fullmatch(r"(?:(\d+)\+)?((?:\d+:){0,2}\d+)", text)
    if not match:
        fail(904, f'Syntax error: "{text}" is not a limit.')
    total = 0
    for part in match.group(2).split(":"):
        total = total * 60 + int(part)
    return total + 86400 * int(match.group(1) or 0)


def limits(given, of_class):
    hard, _, soft = given.partition(",")
    hard, soft = seconds(hard.strip()), seconds(soft.strip())
    if hard is not None and soft is not None and soft > hard:
        fail(905, "The soft limit is above the hard limit.")
    for asked, most in zip((hard, soft), of_class):
        if asked is not None and most is not None and asked > most:
            fail(906, "The wall_clock_limit is above the limit of the class.")
    hard, soft = hard if hard is not None else of_class[0], soft if soft is not None else of_class[1]
    return hard, soft if soft is not None else hard


def number(given, keyword):
    value = given.get(keyword, "1")
    if not re.fullmatch(r"[1-9]\d*", value):
        fail(907, f'Syntax error: "{keyword} = {value}".')
    return int(value)


def llsubmit():
    arguments = sys.argv[1:]
    if arguments == ["-v"]:
        print(f"llsubmit {'5.1.0.18' if IS_NEW else '3.5.1.16'} rral1s018 2009/05/01 RHEL 5.0 140")
        return
    if len(arguments) != 1 or arguments[0].startswith("-"):
        fail(908, "Usage: llsubmit [-?|-H] [-v] [-q] [-X {cluster_list|any}] [cmdfile | -]")
    away()
    try:
        text = open(arguments[0]).read()
    except OSError as error:
        fail(909, f"Cannot open {arguments[0]}: {error.strerror}.")
    if IS_NEW:
        print('llsubmit: Processed command file through Submit Filter: "/path/filter".', file=sys.stderr)
    given = keywords(text)
    name, account = given.get("class", "No_Class"), given.get("account_no", "")
    if name not in CLASSES:
        fail(910, f'The class "{name}" is not valid for this user.')
    if account not in ACCOUNTS:
        fail(911, f'The account "{account}" is not valid for user {USER}.')
    type_ = given.get("job_type", "serial").lower()
    if type_ == "serial" and {"node", "tasks_per_node", "total_tasks"} & set(given):
        fail(912, "Keywords of parallel jobs are not valid for job_type serial.")
    if not re.fullmatch(r"[A-Za-z]\w{0,14}", given.get("job_name", "a"), re.ASCII):
        fail(913, f'The job_name "{given["job_name"]}" is not valid.')
    asked = r"(\w+\(\d+( ?[kmg]b)?\)\s*)*"
    if not all(re.fullmatch(asked, given.get(keyword, "")) for keyword in ("resources", "node_resources")):
        fail(914, "Syntax error in resources.")
    with Store() as store:
        id = f"{SCHEDD}.{store.state['next']}.0"
        job = id[:-2]
        store.state["next"] += 1
        cmd = os.path.abspath(arguments[0])
        if IS_NEW:
            # Its owner may read it, and the daemons.
            shutil.copyfile(cmd, f"{ROOT}/{id}.cmd")
            cmd = f"{ROOT}/{id}.cmd"
        holds = {"user": "H", "system": "S", "usersys": "HS"}
        store.jobs[id] = dict(
            id=id, name=given.get("job_name", job), account=account, type=type_, nodes=number(given, "node"),
            tasks=number(given, "tasks_per_node"), limits=limits(given.get("wall_clock_limit", ""), CLASSES[name]),
            initialdir=given.get("initialdir", os.getcwd()), output=given.get("output", "/dev/null"), cmd=cmd,
            error=given.get("error", "/dev/null"), shell=given.get("shell", "/bin/sh"), created=time.time(), on=[],
            state=holds.get(given.get("hold"), "I"), environment=copied(given.get("environment", "")), **{"class": name},
        )
        store.schedule()
    if IS_NEW:
        print(f"KBGT60003-I Budget function authenticated {USER}")
    print(f'llsubmit: The job "{long_id(job)}" has been submitted.')


def copied(text):
    """`COPY_ALL; $VAR; !VAR; VAR=value`."""
    variables = {}
    for item in filter(None, (item.strip() for item in text.split(";"))):
        if item == "COPY_ALL":
            variables.update(os.environ)
        elif item[0] == "$":
            variables[item[1:]] = os.environ.get(item[1:], "")
        elif item[0] == "!":
            variables.pop(item[1:], None)
        elif "=" in item:
            variables.update([item.split("=", 1)])
        else:
            fail(915, f'Syntax error in environment: "{item}".')
    return variables


def matches(step, asked):
    """`HOST.JOB` is all steps of it, `HOST.JOB.STEP` one; hosts may be long or short."""
    host, *numbers = re.sub(re.escape(DOMAIN), "", asked, count=1).split(".")
    if host.isdigit():
        host, numbers = SCHEDD, [host, *numbers]
    return step["id"].split(".")[: 1 + len(numbers)] == [host, *numbers]


def options(with_lists, flags):
    """Options, and the words that belong to none; a list goes on to the next option or the end of categories."""
    given, words, rest = {}, [], sys.argv[1:]
    while rest:
        word = rest.pop(0)
        if word in with_lists:
            is_categories = word in ("-f", "-r")
            given[word] = []
            while rest and not rest[0].startswith("-") and rest[0].startswith("%") == is_categories:
                given[word].append(rest.pop(0))
        elif word in flags:
            given[word] = []
        elif word.startswith("-"):
            fail(920, f"Option {word} is not valid.")
        else:
            words.append(word)
    return given, words


def selected(given, words):
    with Store() as store:
        steps = store.shown()
    asked = words + given.get("-j", [])
    unless = lambda option, value: option not in given or value in given[option]
    return [
        step for step in steps
        if unless("-u", USER) and unless("-c", step["class"])
        and (not asked or any(matches(step, one) for one in asked))
    ]


def fields(step):
    return {
        "%id": step["id"], "%st": step["state"], "%o": USER, "%c": step["class"], "%jn": step["name"],
        "%jt": step["type"].capitalize(), "%p": "50", "%nh": str(step["nodes"]), "%h": (step["on"] or [""])[0],
        "%dq": when(step["created"]), "%dd": when(step["start"]) if "start" in step else "",
        "%cc": str(step.get("status", "")),
    }


def when(moment):
    return time.strftime("%m/%d/%Y %H:%M", time.localtime(moment))


def llq():
    given, words = options(("-r", "-f", "-u", "-j", "-h", "-c", "-X"), ("-l", "-s", "-x", "-W", "-m"))
    away()
    categories = given.get("-r") or given.get("-f") or []
    for category in categories:
        if category not in ("%id %st %o %c %jn %jt %p %nh %h %dq %dd %cc".split()) or categories.count(category) > 1:
            fail(921, f"Category {category} is not valid.")
    steps = selected(given, words)
    if not steps:
        print("llq: There is currently no job status to report.")
        return
    for step in steps:
        if "-r" in given:
            print("!".join(fields(step)[category] for category in categories))
        elif "-s" in given:
            explain(step)
        elif "-l" in given:
            long_form(step)
    if not {"-r", "-s", "-l"} & set(given):
        table(steps, categories)
    # A raw listing of an old release has nothing but its lines.
    if IS_NEW or "-r" not in given:
        count = lambda *states: sum(step["state"] in states for step in steps)
        word = "query" if words or given else "queue"
        print(f"\n{len(steps)} job step(s) in {word}, {count('I', 'NQ')} waiting, 0 pending, {count('R', 'RP')} running, "
              f"{count('H', 'S', 'HS')} held, 0 preempted")


def table(steps, categories):
    if categories:
        heads = {"%id": "Step Id", "%st": "ST", "%o": "Owner", "%c": "Class", "%jn": "Job Name"}
        rows = [[heads.get(category, category) for category in categories], ["-" * 24] * len(categories)]
        rows += [[fields(step)[category] for category in categories] for step in steps]
        print("\n".join(" ".join(f"{cell[:24]:24}" for cell in row) for row in rows))
        return
    widths = (24, 10, 11, 2, 3, 12, 11)
    rows = [["Id", "Owner", "Submitted", "ST", "PRI", "Class", "Running On" if IS_NEW else "Running on"]]
    rows.append(["-" * width for width in widths])
    for step in steps:
        created = time.localtime(step["created"])
        submitted = f"{created.tm_mon:2d}/{created.tm_mday:<2d} {created.tm_hour:02d}:{created.tm_min:02d}"
        host = (step["on"] or [""])[0] if step["state"] == "R" else ""
        rows.append([step["id"], USER, submitted, step["state"], "50", step["class"], host])
    for row in rows:
        print(" ".join(f"{cell[:width]:{width}}" for cell, width in zip(row, widths)))


def explain(step):
    print(f"==================== EVALUATIONS FOR JOB STEP {step['id']} ====================")
    print(f'The class of this job step is "{step["class"]}".')
    print({"I": "Not enough resources to start now.", "R": "This job step is running."}.get(
        step["state"], f"This job step is in {LONG[step['state']]}."))


def long_form(step):
    marks = "=====" if IS_NEW else "==============="
    print(f"{marks} Job Step {step['id']} {marks}")
    hard, soft = step["limits"]
    limit = lambda total: "undefined" if total is None else f"{clock(total)} ({total} seconds)"
    for label, value in [
        ("Job Step Id", step["id"]), ("Job Name", step["name"]), ("Step Name", "0"), ("Structure Version", "10"),
        ("Owner", USER), ("Queue Date", time.ctime(step["created"])), ("Status", LONG[step["state"]]),
        ("Dispatch Time", time.ctime(step["start"]) if "start" in step else ""), ("Completion Date", ""),
        ("Completion Code", str(step.get("status", ""))), ("Cmd", step["cmd"]), ("In", "/dev/null"),
        ("Out", step["output"]), ("Err", step["error"]), ("Initial Working Dir", step["initialdir"]),
        ("Step Type", "Serial" if step["type"] == "serial" else "General Parallel"), ("Class", step["class"]),
        ("Wall Clk Hard Limit", limit(hard)), ("Wall Clk Soft Limit", limit(soft)), ("Account", step["account"]),
    ]:
        print(f"{label:>19}: {value}")


def clock(total):
    days, rest = divmod(total, 86400)
    return (f"{days}+" if days else "") + f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"


def llcancel():
    given, words = options(("-u", "-h", "-X"), ("-q",))
    away()
    with Store() as store:
        steps = [step for step in store.shown() if step["state"] not in ENDED]
        unknown = [asked for asked in words if not any(matches(step, asked) for step in steps)]
        if unknown and not IS_NEW:
            fail(930, f"Cannot find job {unknown[0]}.")
        for step in steps:
            if not (any(matches(step, asked) for asked in words) or USER in given.get("-u", [])):
                continue
            if step["state"] == "R":
                step["state"] = "RP"
                os.kill(step["starter"], signal.SIGTERM)
            elif step["state"] != "RP":
                step.update(state="CA", end=time.time())
    print("llcancel: Cancel command has been sent to the central manager.")


def llhold():
    given, words = options(("-u", "-h"), ("-q", "-s", "-r"))
    away()
    hold = "S" if "-s" in given else "H"
    with Store() as store:
        for step in store.shown():
            if any(matches(step, asked) for asked in words) and step["state"] in ("I", "H", "S"):
                step["state"] = "I" if "-r" in given else hold
        store.schedule()
    print("llhold: Hold command has been sent to the central manager.")


def llclass():
    given, words = options(("-c", "-X"), ("-l", "-W"))
    away()
    asked = given.get("-c", []) + words or list(CLASSES)
    if not set(asked) <= set(CLASSES):
        fail(940, "There is no such class.")
    with Store() as store:
        store.schedule()
        used = lambda name: sum(s["tasks"] * s["nodes"] for s in store.jobs.values()
                                if s["state"] in ("R", "RP") and s["class"] == name)
        rows = [(name, *CLASSES[name], CLASSES[name][2] - min(used(name), CLASSES[name][2])) for name in asked]
    if "-l" not in given:
        print("Name                 MaxJobCPU     MaxProcCPU  Free   Max Description\n"
              "                    d+hh:mm:ss     d+hh:mm:ss Slots Slots\n"
              "--------------- -------------- -------------- ----- ----- ---------------------")
        for name, _, _, most, free in rows:
            print(f"{name:15} {'undefined':>14} {'undefined':>14} {free:5} {most:5}")
        print("-" * 80)
        return
    for name, hard, soft, most, free in rows:
        limit = "undefined, undefined"
        if hard is not None:
            limit = f"{clock(hard)}, {clock(soft)} ({hard} seconds, {soft} seconds)"
        print(f"=============== Class {name} ===============")
        for label, value in [
            ("Name", name), ("Priority", 100), ("Include_Users", ""), ("Exclude_Users", ""), ("Max_node", -1),
            ("Maxjobs", -1), ("Wall_clock_limit", limit), ("Free_slots", free), ("Maximum_slots", most),
        ]:
            print(f"{label:>20}: {value}")


def llstatus():
    given, _ = options(("-r", "-f"), ("-l", "-a"))
    away()
    with Store() as store:
        store.schedule()
        free = store.free()
    for node, cores in NODES.items():
        state = "Busy" if free[node] == 0 else "Run" if free[node] < cores else "Idle"
        values = {"%n": node, "%sta": "Avail", "%sts": state, "%cpu": cores, "%m": MEMORY_MB, "%r": cores - free[node]}
        categories = given.get("-r", ["%n", "%sta", "%sts"])
        if not set(categories) <= set(values):
            fail(950, "A category is not valid.")
        print("!".join(str(values[category]) for category in categories))


def llspawn():
    """Begins a program on a node of the step, without input."""
    node, *program = sys.argv[1:]
    hosts = open(os.environ["LOADL_HOSTFILE"]).read().split()
    if node not in hosts:
        fail(960, f"{node} is no host of this step.")
    # It is as if on another machine: of the step's variables none comes along.
    variables = {name: value for name, value in os.environ.items() if not name.startswith("LOADL")}
    variables["EMULATED_NODE"] = node
    if os.geteuid() == 0:
        # A machine of its own has a name of its own.
        lines = 'echo "$0" > /proc/sys/kernel/hostname; exec "$@"'
        program = ["unshare", "--uts", "sh", "-c", lines, node, *program]
    task = subprocess.Popen(program, stdin=subprocess.DEVNULL, env=variables)
    sys.exit(task.wait())


def strike_step():
    """`strike SIGNAL ID`"""
    name, id = sys.argv[1:]
    with Store() as store:
        leaders = [step["leader"] for step in store.jobs.values() if matches(step, id)]
    for leader in leaders:
        strike(leader, getattr(signal, f"SIG{name}"))


def away():
    hang_if_told()
    if os.path.exists(f"{ROOT}/down"):
        fail(970, "Cannot connect to the central manager.")


def main():
    {"llsubmit": llsubmit, "llq": llq, "llcancel": llcancel, "llhold": llhold, "llclass": llclass, "llstatus": llstatus,
     "llspawn.stdio": llspawn, "strike": strike_step}[PROGRAM]()
