"""What `run` needs to know of JSON, and its tables."""

import json
import pathlib
import socket
import statistics
import subprocess
import sys

APPLICATIONS = {"vina": "docking", "blastn": "searching"}
USERS = {"vina": "ann", "blastn": "bob"}
# Each of two users would have so many of the four cores (paper 000: T_fast).
CORES_OF_EACH = 2
# Simulated seconds by which the warm-up is over.
WARM_UP_ENDS = 300
# What is predicted to be nearer than that is a draw.
NEAR = 0.05


def load(path):
    return json.loads(pathlib.Path(path).read_text())


def ports(number):
    """Ports that nobody listens on. Freed again at once."""
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(int(number))]
    print(*[listener.getsockname()[1] for listener in listeners])


def local_pilots(path):
    """The process ids of the pilots beside the cluster."""
    print(*[pilot["batch_id"] for pilot in load(path) if pilot["platform"] == "here" and not pilot["ended_at"]])


def walls(folder, is_of):
    """Seconds of each task, by application and platform, of users who are `is_of`."""
    platform = {pilot["id"]: pilot["platform"] for pilot in load(folder / "pilots.json")}
    walls = {}
    for job in load(folder / "jobs.json"):
        if job["application"] not in APPLICATIONS or not is_of(job["user"]):
            continue
        for task in load(folder / f"tasks-{job['id']}.json"):
            walls.setdefault((job["application"], platform[task["pilot"]]), []).append(task["wall"] / 1e6)
    return walls


def in_company(folders):
    """Seconds of a task of an application beside one of another, by both: the mean over what managers have learned."""
    sums = {}
    for folder in folders:
        for profile in load(folder / "profiles.json"):
            for platform in profile["platforms"] if profile["application"] in APPLICATIONS else []:
                for beside in platform["beside"]:
                    for other in [] if beside["others"] is None else beside["others"] or [profile["application"]]:
                        seconds, n = sums.get((profile["application"], other), (0, 0))
                        sums[profile["application"], other] = seconds + beside["mean"] / 1e6, n + 1
    return {key: seconds / n for key, (seconds, n) in sums.items()}


def scenario(platforms, known, company, node_cores, n_docking, n_search, n_warm):
    """The same for the simulator, with these seconds of a task, or those beside one on the other core."""
    best = {a: min(company.get((a, other), known[a, platforms[0]]) for other in APPLICATIONS) for a in APPLICATIONS}
    seconds = lambda a, platform: best[a] if node_cores > 1 else known[a, platform]
    of = lambda platform: ", ".join(f"{name}: {seconds(a, platform):.3f}s" for a, name in APPLICATIONS.items())
    longer = lambda a: ", ".join(
        f"{name}: {company[a, other] / best[a] - 1:.3f}" for other, name in APPLICATIONS.items() if (a, other) in company
    )
    slowed = {a: f", slowed_by: {{{longer(a)}}}" if node_cores > 1 else "" for a in APPLICATIONS}
    sites = "".join(
        f"  - {{name: {platform}, nodes: 2, cores: {node_cores}, pilots_min: 2, poll_interval: 1s,\n     times: {{{of(platform)}}}}}\n"
        for platform in platforms
    )
    warm = ", ".join(f"{{application: {name}, tasks: {n_warm}}}" for name in APPLICATIONS.values())
    return f"""# Made by examples/two-sites/run: the times are medians of what its tasks took.
platforms:
{sites}applications:
  # The platforms say what they take there.
  - {{name: docking, time: 1s{slowed["vina"]}}}
  - {{name: searching, time: 1s{slowed["blastn"]}}}
  - {{name: opening, time: 1s}}
users:
  - {{name: operator, jobs: [{warm}, {{application: opening, tasks: 4, at: {WARM_UP_ENDS}s}}]}}
  - {{name: ann, jobs: [{{application: docking, tasks: {n_docking}, at: {WARM_UP_ENDS}.1s}}]}}
  - {{name: bob, jobs: [{{application: searching, tasks: {n_search}, at: {WARM_UP_ENDS}.1s}}]}}
"""


def fairness(n_tasks, known, ends):
    """1 - sigma/mu of T_fast/T_u over users, with the population's deviation (paper 000)."""
    fastest = {a: min(seconds for (of, _), seconds in known.items() if of == a) for a in APPLICATIONS}
    fast = {a: n_tasks[a] * fastest[a] / CORES_OF_EACH for a in APPLICATIONS}
    gained = [fast[a] / ends[USERS[a]] for a in APPLICATIONS]
    return 1 - statistics.pstdev(gained) / statistics.mean(gained)


class Live:
    """What a set of policies came to."""

    def __init__(self, folder):
        self.walls = walls(folder, lambda user: user in USERS.values())
        self.n_tasks, self.ends = {}, {}
        first, last = float("inf"), 0
        for job in load(folder / "jobs.json"):
            if job["user"] not in USERS.values():
                continue
            if job["counts"]["done"] != job["counts"]["total"]:
                sys.exit(f"Not all tasks of {job['user']} were done: {job['counts']}")
            tasks = load(folder / f"tasks-{job['id']}.json")
            end = max(task["started_at"] + task["wall"] for task in tasks)
            first, last = min(first, job["submitted_at"]), max(last, end)
            self.n_tasks[job["application"]] = len(tasks)
            self.ends[job["user"]] = (end - job["submitted_at"]) / 1e6
        self.makespan = (last - first) / 1e6


def makespans(measures):
    """Of users, in a result of `simulate --json`."""
    return {m["name"]: m["makespan_s"] for m in measures if m["of"] == "user" and m["name"] in USERS.values()}


def simulate(pilotfish, arguments, layers):
    compare = [word for layer in layers.items() for word in ("--compare", "=".join(layer))]
    said = subprocess.run([pilotfish, "simulate", *arguments, *compare, "--json"], capture_output=True, text=True)
    if said.returncode:
        sys.exit(f"simulate {' '.join(arguments + compare)}: {said.stderr}")
    return makespans(json.loads(said.stdout)["runs"][0]["measures"])


def table(head, rows):
    """Words to the left, numbers to the right."""
    is_number = lambda text: text[:1].isdigit() or text[:1] in "+-"
    widths = [max(len(row[n]) for row in [head, *rows]) for n in range(len(head))]
    for row in [head, *rows]:
        cells = [
            cell.rjust(width) if is_number(rows[0][n]) else cell.ljust(width)
            for n, (cell, width) in enumerate(zip(row, widths))
        ]
        print("  ".join(cells).rstrip())
    print()


def report(pilotfish, work, node_cores, *numbers):
    work = pathlib.Path(work)
    platforms = sorted({pilot["platform"] for pilot in load(work / "1" / "pilots.json")})
    sets = [dict(word.split("=") for word in line.split()) for line in (work / "sets").read_text().splitlines()]
    lives = [Live(work / str(n)) for n in range(1, len(sets) + 1)]
    layers = list(sets[0])
    words = lambda policies: [policies[layer] for layer in layers]
    names = [layer.upper() for layer in layers]
    cells = [(application, platform) for application in APPLICATIONS for platform in platforms]
    places = [
        f"{name}, {platform}".upper() if platform == platforms[0] else platform.upper()
        for name in APPLICATIONS.values()
        for platform in platforms
    ]
    of_all = [walls(work / "warm-up", lambda user: True), *(live.walls for live in lives)]
    known = {cell: statistics.median(wall for of in of_all for wall in of.get(cell, [])) for cell in cells}
    company = in_company([work / str(n) for n in range(1, len(sets) + 1)])
    (work / "scenario.yaml").write_text(scenario(platforms, known, company, int(node_cores), *numbers))
    fair = [fairness(live.n_tasks, known, live.ends) for live in lives]

    print("Seconds of a task, the median over all runs")
    rows = []
    for application, name in APPLICATIONS.items():
        of = [known[application, platform] for platform in platforms]
        factor = [f"{max(of) / min(of):.1f}"] if len(platforms) > 1 else []
        rows.append([name, *(f"{seconds:.2f}" for seconds in of), *factor])
    table(["APPLICATION", *map(str.upper, platforms), *["FACTOR"][: len(platforms) - 1]], rows)

    if int(node_cores) > 1:
        print("Seconds of a task beside another on its node, as the managers have learned")
        cell = lambda a, other: f"{company[a, other]:.2f}" if (a, other) in company else "-"
        rows = [[name, *(cell(a, other) for other in APPLICATIONS)] for a, name in APPLICATIONS.items()]
        table(["APPLICATION", *(f"BESIDE {name}".upper() for name in APPLICATIONS.values())], rows)

    print("Live")
    rows = []
    for policies, live, its_fairness in zip(sets, lives, fair):
        rate = 3600 * sum(live.n_tasks.values()) / live.makespan
        ran = [str(len(live.walls.get(cell, []))) for cell in cells]
        ends = [f"{live.ends[name]:.1f} s" for name in USERS.values()]
        rows.append([*words(policies), f"{live.makespan:.1f} s", f"{rate:.0f}", f"{its_fairness:.3f}", *ends, *ran])
    table([*names, "MAKESPAN", "TASKS/H", "FAIRNESS", "ANN", "BOB", *places], rows)

    print("Seconds of a task then, the mean")
    rows = []
    for policies, live in zip(sets, lives):
        of = [live.walls.get(cell) for cell in cells]
        rows.append([*words(policies), *(f"{statistics.mean(each):.2f}" if each else "-" for each in of)])
    table([*names, *places], rows)

    print("Predicted by the simulator from those medians, and live")
    rows, predicted = [], []
    for policies, live, live_fair in zip(sets, lives, fair):
        ends = simulate(pilotfish, [str(work / "scenario.yaml")], policies)
        predicted.append((max(ends.values()), fairness(live.n_tasks, known, ends)))
        makespan, its_fairness = predicted[-1]
        rows.append([
            *words(policies), f"{makespan:.1f} s", f"{live.makespan:.1f} s", off_by(makespan, live.makespan),
            f"{its_fairness:.3f}", f"{live_fair:.3f}",
        ])
    table([*names, "MAKESPAN, PREDICTED", "LIVE", "OFF BY", "FAIRNESS, PREDICTED", "LIVE"], rows)

    print("Played again from the store by simulate --what-if, under the policies of then")
    rows, again = [], []
    for n, (policies, live) in enumerate(zip(sets, lives), 1):
        ends = simulate(pilotfish, ["--what-if", str(work / str(n))], policies)
        again.append(max(ends.values()))
        rows.append([*words(policies), f"{again[-1]:.1f} s", f"{live.makespan:.1f} s", off_by(again[-1], live.makespan)])
    table([*names, "MAKESPAN, AGAIN", "LIVE", "OFF BY"], rows)

    makespans_live = [live.makespan for live in lives]
    claims = [
        *better(sets, "distribution", "adaptive", "core-based", "makespan", [-m for m in makespans_live]),
        *better(sets, "allocation", "pa-rr", "equal", "fairness", fair),
        *better(sets, "mapping", "maf", "all-core", "makespan", [-m for m in makespans_live]),
    ]
    # Without a mapping, chance decides whose tasks share a node, and so how long all takes. Without shares, how fair a
    # set is hangs on who asked first.
    mapped = [n for n, policies in enumerate(sets) if policies.get("mapping") != "none"]
    shared = [n for n, policies in enumerate(sets) if policies.get("allocation", "none") != "none"]
    for measure, at, those, live in ("makespan", 0, mapped, makespans_live), ("fairness", 1, shared, fair):
        if len(those) > 1:
            claims.append(in_order(measure, [predicted[n][at] for n in those], [live[n] for n in those]))
    claims.append(near(again, makespans_live, max(known.values())))
    for claim, holds in claims:
        print(f"{'holds' if holds else 'FAILS'}  {claim}")
    return 0 if all(holds for _, holds in claims) else 1


def off_by(found, live):
    return f"{100 * (found / live - 1):+.1f} %"


def better(sets, layer, policy, other, measure, values):
    """Pairs of sets that differ by this layer only: the one is to be better, which is more."""
    rest = lambda policies: {key: word for key, word in policies.items() if key != layer}
    for one, its in zip(sets, values):
        for two, others in zip(sets, values):
            if (one.get(layer), two.get(layer)) == (policy, other) and rest(one) == rest(two):
                beside = ", ".join(f"{key} {word}" for key, word in rest(one).items())
                beside = f" ({beside})" if beside else ""
                claim = f"{policy} is better than {other} by {measure}{beside}: {abs(its):.3g} to {abs(others):.3g}"
                yield claim, its > others


def near(again, live, longest):
    """Where tasks are few, one of them at the other site is more than a tenth."""
    most = max(abs(a - b) / max(0.1 * b, longest) for a, b in zip(again, live))
    worst = max(abs(a / b - 1) for a, b in zip(again, live))
    claim = f"played again, makespans come within 10 % or the longest task ({longest:.1f} s): {worst:.1%} at most"
    return claim, most <= 1


def in_order(measure, predicted, live):
    """What is predicted to differ by more than some hundredths does so, live, in that order."""
    pairs = [(a, b) for a in range(len(live)) for b in range(a)]
    is_told = lambda a, b: abs(predicted[a] - predicted[b]) > NEAR * max(predicted[a], predicted[b])
    told = [(a, b) for a, b in pairs if is_told(a, b)]
    right = [(a, b) for a, b in told if (predicted[a] < predicted[b]) == (live[a] < live[b])]
    claim = f"of {len(pairs)} pairs of sets, {len(told)} are predicted to differ in {measure} by more than {NEAR:.0%}"
    return f"{claim}; in that order live: {len(right)}", told == right


if __name__ == "__main__":
    commands = {
        "ports": ports, "local-pilots": local_pilots, "report": report,
    }
    sys.exit(commands[sys.argv[1]](*sys.argv[2:]))
