//! Options of a submission that set the size of a pilot. Budgets are computed from the platform's fields, so
//! these fields must set it, not an option. Knows nothing of other options. Options that keep other jobs off
//! the node (`--exclusive`, `place=excl`, `node_usage = not_shared`) are not checked here: the operator sets
//! `cores` to those of a whole node then.

use super::{PBS_FLAGS, SLURM_FLAGS, short_options};

const CORES: &str = "cores";
const NODES: &str = "nodes";
const WALLTIME: &str = "walltime";

/// Long options of `sbatch`, their letters, and the platform's fields that set the same.
const SLURM: [(&str, Option<char>, &str); 10] = [
    ("--nodes", Some('N'), NODES),
    ("--ntasks", Some('n'), CORES),
    ("--ntasks-per-node", None, CORES),
    ("--ntasks-per-gpu", None, CORES),
    ("--cpus-per-task", Some('c'), CORES),
    ("--cpus-per-gpu", None, CORES),
    ("--mincpus", None, CORES),
    ("--core-spec", Some('S'), CORES),
    ("--thread-spec", None, CORES),
    ("--time", Some('t'), WALLTIME),
];

/// The size of a pilot by the platform's fields.
#[derive(Clone, Copy)]
pub(crate) struct Said {
    /// Cores of a pilot.
    pub(crate) cores: u32,
    /// Whether field `walltime` is set. Without it no budget of core-hours is possible.
    pub(crate) has_walltime: bool,
}

/// Returns the field that sets the same as `option`. Returns `None` if there is none, or if the option asks
/// for no more than the field.
pub(crate) fn field_of(adapter: &str, option: &str, said: Said) -> Option<&'static str> {
    let field = match adapter {
        "slurm" => of_slurm(option),
        "pbs" => of_pbs(option, said),
        "gridengine" => of_grid_engine(option),
        "loadleveler" => of_loadleveler(option, said.cores),
        _ => None,
    };
    field.filter(|field| *field != WALLTIME || said.has_walltime)
}

/// Slurm accepts abbreviated long options.
fn of_slurm(option: &str) -> Option<&'static str> {
    if option.starts_with("--") {
        let (word, _) = option.split_once([' ', '=']).unwrap_or((option, ""));
        let is_it = |long: &str| word.len() > 2 && long.starts_with(word);
        return SLURM.iter().find(|(long, _, _)| is_it(long)).map(|(_, _, field)| *field);
    }
    let letters = short_options(option, SLURM_FLAGS);
    let is_there = |letter: Option<char>| letters.iter().any(|(there, _)| Some(*there) == letter);
    SLURM.iter().find(|(_, letter, _)| is_there(*letter)).map(|(_, _, field)| *field)
}

fn of_pbs(option: &str, said: Said) -> Option<&'static str> {
    let letters = short_options(option, PBS_FLAGS).into_iter();
    let resources = letters.filter(|(letter, _)| ['l', 'L'].contains(letter)).filter_map(|(_, value)| value);
    resources.flat_map(|resources| resources.split(',')).find_map(|resource| of_resource(resource, said))
}

/// Checks a resource of PBS, like `walltime=1:0:0`, `select=1:ncpus=32` or `nodes=2#shared`. TORQUE takes the
/// cores of `procs=8` and `tasks=2:lprocs=4` from any nodes.
fn of_resource(resource: &str, said: Said) -> Option<&'static str> {
    let (name, value) = resource.trim().split_once('=')?;
    let is_more = |number: &str| number.trim().parse::<u32>().is_ok_and(|n| n != 1);
    let is_too_much = |number: &str| !number.trim().parse::<u32>().is_ok_and(|n| n <= said.cores);
    let name = name.trim();
    match name {
        "walltime" | "min_walltime" | "max_walltime" => said.has_walltime.then_some(WALLTIME),
        "procs" if is_more(value) => Some(CORES),
        "ncpus" | "procs" | "size" | "mppwidth" if is_too_much(value) => Some(CORES),
        "select" | "nodes" | "nodect" | "tasks" => {
            let mut parts = value.split([':', '+', '#']);
            if value.contains('+') || parts.clone().next().is_some_and(is_more) {
                return Some(NODES);
            }
            let is_of_cores = |name: &str| ["ncpus", "ppn", "procs", "lprocs"].contains(&name.trim());
            let has_more = |part: &str| {
                part.split_once('=').is_some_and(|(name, number)| is_of_cores(name) && is_too_much(number))
            };
            parts.any(has_more).then_some(CORES)
        }
        _ => None,
    }
}

/// Checks an option of Grid Engine: it may be several words, and its resources may be written as shortcuts.
fn of_grid_engine(option: &str) -> Option<&'static str> {
    let mut words = option.split_whitespace();
    let mut fields = Vec::new();
    while let Some(word) = words.next() {
        let resources = match word {
            "-l" => words.next().unwrap_or_default(),
            _ => word.strip_prefix("-l").unwrap_or_default(),
        };
        let names =
            resources.split(',').map(|resource| resource.split('=').next().unwrap_or_default().trim());
        fields.extend(names.filter_map(|name| match name {
            "slots" | "s" => Some(CORES),
            "h_rt" => Some(WALLTIME),
            _ => None,
        }));
    }
    fields.into_iter().min()
}

/// Checks an option `keyword = value`.
fn of_loadleveler(option: &str, cores: u32) -> Option<&'static str> {
    let (keyword, value) = option.split_once('=')?;
    let value = value.trim().to_ascii_lowercase();
    // In `ConsumableCpus(8) ConsumableMemory(1 gb)` the number is 8.
    let has_more_than = |most: u32| {
        let (_, rest) = value.split_once("consumablecpus")?;
        let number = rest.trim_start().strip_prefix('(')?.split(')').next()?;
        Some(!number.trim().parse::<u32>().is_ok_and(|n| n <= most))
    };
    match keyword.trim().to_ascii_lowercase().as_str() {
        "node" => Some(NODES),
        "tasks_per_node" | "total_tasks" | "task_geometry" | "blocking" | "min_processors"
        | "max_processors" => Some(CORES),
        // A pilot has one task of LoadLeveler per core.
        "resources" if has_more_than(1) == Some(true) => Some(CORES),
        "node_resources" if has_more_than(cores) == Some(true) => Some(CORES),
        "wall_clock_limit" => Some(WALLTIME),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Said, field_of};

    #[track_caller]
    fn check(adapter: &str, field: Option<&str>, options: &[&str]) {
        for option in options {
            let found = field_of(adapter, option, Said { cores: 4, has_walltime: true });
            assert_eq!(found, field, "{adapter}: {option}");
        }
    }

    #[test]
    fn options_of_slurm_that_take_more_are_said_by_fields() {
        let cores =
            ["-c32", "-c 32", "-vc32", "-sc32", "--cpus-per-task=32", "--cpus-per-task 32", "--cpus-per-t=2"];
        check("slurm", Some("cores"), &cores);
        let cores = ["-n 4", "-n4", "--ntasks=4", "--nta=4", "--ntasks-per-node=9", "-S1"];
        check("slurm", Some("cores"), &cores);
        let cores =
            ["--mincpus=9", "--core-spec=1", "--thread-spec=2", "--ntasks-per-gpu=8", "--cpus-per-gpu=8"];
        check("slurm", Some("cores"), &cores);
        check("slurm", Some("nodes"), &["-N 3", "-N3", "-N1-4", "--nodes=3", "--nod=3", "-HN3"]);
        check("slurm", Some("walltime"), &["-t 10", "-t10", "--time=1-0", "--tim=1"]);
        let others = [
            "--exclusive",
            "--exclusive=user",
            "--time-min=5",
            "-pcn",
            "--nodelist=n1",
            "-w n1",
            "--threads-per-core=1",
        ];
        check("slurm", None, &others);
        let others =
            ["--ntasks-per-core=1", "--mem=0", "--gres=gpu:2", "--nice=5", "--exclude=n1", "--", "-AN"];
        check("slurm", None, &others);
        let without = Said { cores: 4, has_walltime: false };
        assert_eq!(field_of("slurm", "--time=5", without), None, "nothing counts by it");
        assert_eq!(field_of("pbs", "-l walltime=60,ncpus=9", without), Some("cores"));
    }

    #[test]
    fn resources_of_pbs_that_take_more_are_said_by_fields() {
        let cores =
            ["-lselect=1:ncpus=32", "-l select=1:ncpus=32", "-l select=ncpus=5", "-l ncpus=32", "-lprocs=8"];
        check("pbs", Some("cores"), &cores);
        let cores = [
            "-l nodes=1:ppn=5#shared",
            "-lplace=free,nodes=n2:ppn=8",
            "-L tasks=1:lprocs=all",
            "-Vl ncpus=9",
        ];
        check("pbs", Some("cores"), &cores);
        check(
            "pbs",
            Some("nodes"),
            &["-lselect=3:ncpus=1", "-l nodes=2#shared", "-l nodes = 2", "-l nodes=a+b"],
        );
        check(
            "pbs",
            Some("walltime"),
            &["-lwalltime=9:0:0", "-l place=excl,walltime=60", "-l max_walltime=9"],
        );
        let others =
            ["-l select=1:ncpus=4:model=ivy", "-l procs=1", "-l mem=1gb", "-q ncpus", "-L tasks=1:lprocs=4"];
        check("pbs", None, &others);
    }

    #[test]
    fn resources_of_grid_engine_and_keywords_of_loadleveler_that_take_more_are_said_by_fields() {
        check("gridengine", Some("cores"), &["-l slots=4", "-l h=a,slots=4", "-q a -l s=4", "-lslots=4"]);
        check("gridengine", Some("walltime"), &["-l h_rt=60", "-hard -l a=1,h_rt=60"]);
        check("gridengine", None, &["-l exclusive=true", "-notify", "-q slots", "-l h_rss=1G", "-l"]);
        check("loadleveler", Some("nodes"), &["Node = 3"]);
        let cores = ["tasks_per_node=32", "Total_Tasks = 9", "max_processors = 9"];
        check("loadleveler", Some("cores"), &cores);
        let cores =
            ["resources = ConsumableCpus(8) ConsumableMemory(1 gb)", "node_resources=ConsumableCpus (5)"];
        check("loadleveler", Some("cores"), &cores);
        check("loadleveler", Some("walltime"), &["wall_clock_limit = 60,10"]);
        let others = [
            "node_usage = not_shared",
            "resources = ConsumableCpus(1)",
            "node_resources = ConsumableCpus(4)",
        ];
        check("loadleveler", None, &others);
        check("hosts", None, &["-c32"]);
    }
}
