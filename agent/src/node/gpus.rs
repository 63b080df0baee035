//! The GPUs of a node that this pilot may use, and the variables that show a task its own GPUs and no others.
//!
//! Batch systems set the variables of the vendors' libraries: NVIDIA's CUDA_VISIBLE_DEVICES, AMD's
//! ROCR_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES and GPU_DEVICE_ORDINAL, Intel's ZE_AFFINITY_MASK. Some set all
//! of them for any GPU. AMD's second and third variable number the GPUs that the first one lets through, so
//! they must not repeat its numbers.

use std::{fs, path::Path};

const CUDA: &str = "CUDA_VISIBLE_DEVICES";
const ROCR: &str = "ROCR_VISIBLE_DEVICES";
const HIP: &str = "HIP_VISIBLE_DEVICES";
const ORDINAL: &str = "GPU_DEVICE_ORDINAL";
const ZE: &str = "ZE_AFFINITY_MASK";
/// All variables that hide GPUs. A task with GPUs inherits none of them from the agent.
pub const VARIABLES: [&str; 5] = [CUDA, ROCR, HIP, ORDINAL, ZE];
/// Variables by which batch systems list a job's GPUs if they set none of the above: numbers of the host.
const JOBS: [&str; 5] = ["SLURM_STEP_GPUS", "SLURM_JOB_GPUS", "SGE_HGR_gpu", "SGE_HGR_gpus", "SGE_HGR_cuda"];
/// TORQUE's variable with the name of a file, which has a line `HOST-gpuN` for each GPU.
const FILE: &str = "PBS_GPUFILE";
/// Intel's vendor id on the PCI bus.
const INTEL: &str = "0x8086";

/// GPUs, and the variables that name them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Gpus {
    /// Each variable with a name for each GPU; all lists have the same length.
    variables: Vec<(&'static str, Vec<String>)>,
    /// Whether the GPUs come from the batch system or the machine.
    is_known: bool,
}

impl Gpus {
    /// Finds the GPUs of the machine below `root`. `variable`: the environment.
    pub fn discover(root: &Path, variable: &dyn Fn(&str) -> Option<String>) -> Gpus {
        let machine = Machine::look(root);
        let said = VARIABLES.map(|name| variable(name).map(|list| names(&list)));
        if said.iter().any(Option::is_some) {
            return Gpus { variables: by_variables(said, &machine), is_known: true };
        }
        let listed = JOBS.iter().find_map(|name| variable(name)).map(|list| names(&list));
        let listed =
            listed.or_else(|| variable(FILE).map(|file| of_file(&root.join(file.trim_start_matches('/')))));
        if let Some(names) = listed {
            return Gpus { variables: vec![(machine.variable(), names)], is_known: true };
        }
        match machine.count() {
            0 => Gpus::default(),
            n => Gpus { variables: vec![(machine.variable(), numbers(n))], is_known: true },
        }
    }

    /// Returns the number of GPUs.
    pub fn count(&self) -> usize {
        self.variables.first().map_or(0, |(_, names)| names.len())
    }

    /// Returns these GPUs if they are known, else the `n` GPUs that the platform declares, by number.
    #[must_use]
    pub fn or_declared(&self, n: u32) -> Gpus {
        if self.is_known || n == 0 {
            return self.clone();
        }
        Gpus { variables: vec![(CUDA, numbers(n as usize))], is_known: false }
    }

    /// Returns whether the GPUs are known. If so, there are no more than [`Gpus::count`].
    pub fn is_known(&self) -> bool {
        self.is_known
    }

    /// Returns the variables that show a task the given GPUs, counted from 0.
    pub fn shown(&self, gpus: &[usize]) -> Vec<(&'static str, String)> {
        let of = |names: &Vec<String>| {
            let chosen = gpus.iter().filter_map(|gpu| names.get(*gpu));
            chosen.map(String::as_str).collect::<Vec<_>>().join(",")
        };
        self.variables.iter().map(|(variable, names)| (*variable, of(names))).collect()
    }
}

/// The GPUs in the machine.
struct Machine {
    n_nvidia: usize,
    n_amd: usize,
    n_intel: usize,
}

impl Machine {
    fn look(root: &Path) -> Machine {
        let folder = |path: &str| fs::read_dir(root.join(path)).into_iter().flatten().flatten();
        let n_nvidia = folder("proc/driver/nvidia/gpus").count();
        // The driver's topology also has a node for each CPU socket, which has no SIMD units.
        let simds = |text: String| {
            text.lines().find_map(|line| line.strip_prefix("simd_count ")?.trim().parse().ok())
        };
        let is_amd = |node: &fs::DirEntry| {
            let text = fs::read_to_string(node.path().join("properties")).ok();
            text.and_then(simds).is_some_and(|n: u64| n > 0)
        };
        let n_amd = folder("sys/class/kfd/kfd/topology/nodes").filter(is_amd).count();
        // GPUs that are part of a processor are on bus 0.
        let is_intel = |card: &fs::DirEntry| {
            let device = card.path().join("device");
            let is_card = card
                .file_name()
                .to_string_lossy()
                .strip_prefix("card")
                .is_some_and(|n| n.parse::<u32>().is_ok());
            let vendor = fs::read_to_string(device.join("vendor")).unwrap_or_default();
            let slot = fs::canonicalize(&device).unwrap_or_default();
            let is_apart =
                slot.file_name().is_some_and(|name| !name.to_string_lossy().starts_with("0000:00:"));
            is_card && vendor.trim() == INTEL && is_apart
        };
        let n_intel = folder("sys/class/drm").filter(is_intel).count();
        Machine { n_nvidia, n_amd, n_intel }
    }

    fn count(&self) -> usize {
        [self.n_nvidia, self.n_amd, self.n_intel].into_iter().find(|n| *n > 0).unwrap_or(0)
    }

    /// Returns the variable that the vendor's library reads.
    fn variable(&self) -> &'static str {
        match self {
            Machine { n_nvidia: 1.., .. } => CUDA,
            Machine { n_amd: 1.., .. } => ROCR,
            Machine { n_intel: 1.., .. } => ZE,
            _ => CUDA,
        }
    }
}

/// Returns the variables for tasks from the pilot's own (`said`), in the order of [`VARIABLES`].
fn by_variables(said: [Option<Vec<String>>; 5], machine: &Machine) -> Vec<(&'static str, Vec<String>)> {
    let [cuda, rocr, hip, ordinal, ze] = said;
    let is_amd =
        machine.n_nvidia == 0 && (machine.n_amd > 0 || (cuda.is_none() && (rocr.is_some() || hip.is_some())));
    if is_amd {
        let above = [(HIP, hip), (CUDA, cuda), (ORDINAL, ordinal)];
        return of_amd(rocr, above);
    }
    let all = [(CUDA, cuda), (ROCR, rocr), (HIP, hip), (ORDINAL, ordinal), (ZE, ze)];
    let first = |all: &[(&'static str, Option<Vec<String>>)], name| {
        all.iter().find(|(of, list)| *of == name && list.is_some()).and_then(|(_, list)| list.clone())
    };
    let own = first(&all, machine.variable());
    let Some(own) = own.or_else(|| all.iter().find_map(|(_, list)| list.clone())) else { return Vec::new() };
    // A list of the same length names the same GPUs; other lists mean something else.
    all.into_iter()
        .filter_map(|(name, list)| Some((name, list.filter(|list| list.len() == own.len())?)))
        .collect()
}

/// Returns AMD's variables: `rocr` limits the runtime, `above` chooses among the GPUs that it lets through.
fn of_amd(
    rocr: Option<Vec<String>>,
    above: [(&'static str, Option<Vec<String>>); 3],
) -> Vec<(&'static str, Vec<String>)> {
    let Some(rocr) = rocr else {
        let first = above.iter().find_map(|(_, list)| list.clone()).unwrap_or_default();
        let same = above.into_iter().filter(|(_, list)| list.as_ref() == Some(&first));
        return same.map(|(name, _)| (name, first.clone())).collect();
    };
    // The same list in `above` repeats the batch system's choice; another one chooses among the first.
    let chosen = above.into_iter().find_map(|(_, list)| list).filter(|list| *list != rocr);
    let place = |name: &String| rocr.get(name.parse::<usize>().ok()?).cloned();
    let narrowed = chosen.and_then(|list| list.iter().map(place).collect::<Option<Vec<String>>>());
    vec![(ROCR, narrowed.unwrap_or(rocr))]
}

/// Parses a list of GPUs: `0,1`, `0 1`, `GPU-8932f937`, `MIG-…`, `MIG-GPU-…/1/0`, `0.1` (a part of Intel's).
/// It ends at the first word that is no GPU, as in the libraries; batch systems write words like NoDevFiles
/// for "none".
fn names(list: &str) -> Vec<String> {
    let is_number = |name: &str| name.split('.').all(|part| part.parse::<u32>().is_ok());
    let is_name = |name: &&str| is_number(name) || name.starts_with("GPU-") || name.starts_with("MIG-");
    let words = list.split([',', ' ']).map(str::trim).filter(|word| !word.is_empty());
    words.take_while(is_name).map(str::to_string).collect()
}

fn numbers(n: usize) -> Vec<String> {
    (0..n).map(|gpu| gpu.to_string()).collect()
}

fn of_file(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().filter_map(|line| Some(line.trim().rsplit_once("-gpu")?.1.to_string())).collect()
}

#[cfg(test)]
mod tests {
    use std::{collections::HashMap, fs, path::Path};

    use super::{Gpus, names};

    fn gpus(root: &Path, variables: &[(&str, &str)]) -> Gpus {
        let variables: HashMap<&str, &str> = variables.iter().copied().collect();
        Gpus::discover(root, &|name| variables.get(name).map(|value| (*value).to_string()))
    }

    /// Returns the variables of each GPU's task on a machine without a known GPU.
    fn shown(variables: &[(&str, &str)]) -> Vec<String> {
        shown_on(tempfile::tempdir().unwrap().path(), variables)
    }

    fn shown_on(root: &Path, variables: &[(&str, &str)]) -> Vec<String> {
        let gpus = gpus(root, variables);
        let line = |gpu| {
            let shown = gpus.shown(&[gpu]).into_iter();
            shown.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
        };
        (0..gpus.count()).map(line).collect()
    }

    fn nvidia(n: usize) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        (0..n).for_each(|n| {
            fs::create_dir_all(root.path().join(format!("proc/driver/nvidia/gpus/{n}"))).unwrap()
        });
        root
    }

    fn amd(n: usize) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for node in 0..=n {
            let folder = root.path().join(format!("sys/class/kfd/kfd/topology/nodes/{node}"));
            fs::create_dir_all(&folder).unwrap();
            let simds = if node == 0 { 0 } else { 440 };
            fs::write(folder.join("properties"), format!("cpu_cores_count 64\nsimd_count {simds}\n"))
                .unwrap();
        }
        root
    }

    #[test]
    fn each_task_is_shown_its_own_gpu_by_the_variable_of_the_vendor() {
        assert_eq!(
            shown(&[("CUDA_VISIBLE_DEVICES", "1,3")]),
            ["CUDA_VISIBLE_DEVICES=1", "CUDA_VISIBLE_DEVICES=3"]
        );
        assert_eq!(
            shown(&[("ROCR_VISIBLE_DEVICES", "0,1")]),
            ["ROCR_VISIBLE_DEVICES=0", "ROCR_VISIBLE_DEVICES=1"]
        );
        assert_eq!(
            shown(&[("HIP_VISIBLE_DEVICES", "2,3")]),
            ["HIP_VISIBLE_DEVICES=2", "HIP_VISIBLE_DEVICES=3"]
        );
        assert_eq!(shown(&[("GPU_DEVICE_ORDINAL", "2,3")]), ["GPU_DEVICE_ORDINAL=2", "GPU_DEVICE_ORDINAL=3"]);
        assert_eq!(
            shown(&[("ZE_AFFINITY_MASK", "0.0,0.1")]),
            ["ZE_AFFINITY_MASK=0.0", "ZE_AFFINITY_MASK=0.1"]
        );
        let mig = [("CUDA_VISIBLE_DEVICES", "MIG-GPU-8932f937/1/0,MIG-63feeb45")];
        assert_eq!(
            shown(&mig),
            ["CUDA_VISIBLE_DEVICES=MIG-GPU-8932f937/1/0", "CUDA_VISIBLE_DEVICES=MIG-63feeb45"]
        );
        let gpus = gpus(Path::new("/none"), &[("ROCR_VISIBLE_DEVICES", "0,1,2,3")]);
        assert_eq!(gpus.shown(&[1, 3]), [("ROCR_VISIBLE_DEVICES", "1,3".to_string())]);
    }

    #[test]
    fn where_a_batch_system_sets_all_variables_no_two_of_them_contradict() {
        let all =
            [("CUDA_VISIBLE_DEVICES", "0,1"), ("ROCR_VISIBLE_DEVICES", "0,1"), ("GPU_DEVICE_ORDINAL", "0,1")];
        // For AMD's libraries the numbers count among the GPUs that the runtime shows.
        assert_eq!(shown_on(amd(2).path(), &all), ["ROCR_VISIBLE_DEVICES=0", "ROCR_VISIBLE_DEVICES=1"]);
        let second = "CUDA_VISIBLE_DEVICES=1 ROCR_VISIBLE_DEVICES=1 GPU_DEVICE_ORDINAL=1";
        assert_eq!(shown_on(nvidia(2).path(), &all)[1], second);
        let narrowed = [("ROCR_VISIBLE_DEVICES", "4,5,6,7"), ("HIP_VISIBLE_DEVICES", "2,3")];
        assert_eq!(shown(&narrowed), ["ROCR_VISIBLE_DEVICES=6", "ROCR_VISIBLE_DEVICES=7"]);
    }

    #[test]
    fn what_is_built_in_counts_where_no_variable_says_anything() {
        assert_eq!(shown_on(nvidia(2).path(), &[]), ["CUDA_VISIBLE_DEVICES=0", "CUDA_VISIBLE_DEVICES=1"]);
        assert_eq!(shown_on(amd(2).path(), &[]), ["ROCR_VISIBLE_DEVICES=0", "ROCR_VISIBLE_DEVICES=1"]);
        assert_eq!(
            shown_on(amd(4).path(), &[("SLURM_JOB_GPUS", "2,3")]),
            ["ROCR_VISIBLE_DEVICES=2", "ROCR_VISIBLE_DEVICES=3"]
        );
        assert_eq!(
            shown_on(nvidia(4).path(), &[("SGE_HGR_gpu", "1 3")]),
            ["CUDA_VISIBLE_DEVICES=1", "CUDA_VISIBLE_DEVICES=3"]
        );
        let torque = nvidia(4);
        fs::write(torque.path().join("gpufile"), "n1-gpu2\nn1-gpu3\n").unwrap();
        assert_eq!(
            shown_on(torque.path(), &[("PBS_GPUFILE", "/gpufile")]),
            ["CUDA_VISIBLE_DEVICES=2", "CUDA_VISIBLE_DEVICES=3"]
        );
    }

    #[test]
    fn what_was_declared_counts_only_where_nobody_knows_better() {
        let none = tempfile::tempdir().unwrap();
        let unknown = gpus(none.path(), &[]);
        assert_eq!((unknown.count(), unknown.or_declared(2).count()), (0, 2));
        assert_eq!(unknown.or_declared(2).shown(&[1]), [("CUDA_VISIBLE_DEVICES", "1".to_string())]);
        for hidden in ["", "NoDevFiles", "-1"] {
            let hidden = gpus(nvidia(8).path(), &[("CUDA_VISIBLE_DEVICES", hidden)]);
            assert_eq!((hidden.count(), hidden.or_declared(4).count(), hidden.is_known()), (0, 0, true));
        }
    }

    #[test]
    fn lists_end_where_the_libraries_stop_reading() {
        assert_eq!(names("1, GPU-ab,MIG-x,-1,3"), ["1", "GPU-ab", "MIG-x"]);
        assert_eq!(names("NoDevFiles"), Vec::<String>::new());
    }
}
