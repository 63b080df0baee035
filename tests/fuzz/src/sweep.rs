//! Sweeps: as people write them on the command line, as they stand in job files, and as they travel. One
//! that is found valid has a value for every index.

use protocol::{
    job::{CommandLine, JobSpec},
    sweep::{Sweep, parse_array},
};

use crate::{Check, Target, bound::Bound, job_file};

/// See the module.
pub const TARGET: Target = Target {
    name: "sweep",
    seeds,
    words: &[
        "range: [",
        "linspace: [",
        "zip:",
        "sample:",
        "n: ",
        "seed: ",
        "{\"columns\":[",
        "\"texts\":",
        "\"integers\":",
        "\"linspace\":",
        "\"from\":",
        "\"step\":",
        "\"n\":",
        "\"sample\":{\"n\":3,\"seed\":7}",
        "-9223372036854775808",
        "9223372036854775807",
        "1e308",
        "-0.0",
        ".nan",
        "18446744073709551615",
        ":",
        "-",
        ",",
    ],
    start,
    // Those of job files, by whose reader it goes: what is nested deeply has long paths.
    bound: Bound { constant: 4 << 20, factor: 4096 },
    n_fast: 20_000,
};

const ARRAY: u8 = b'a';
const TRAVELLING: u8 = b'{';

fn start() -> Check {
    Box::new(|bytes| match bytes.split_first() {
        Some((&ARRAY, rest)) => {
            let Ok(text) = std::str::from_utf8(rest) else { return };
            if let Ok(dimension) = parse_array("i", text) {
                try_out(Sweep { dimensions: vec![dimension], sample: None });
            }
        }
        Some((&TRAVELLING, _)) => {
            if let Ok(sweep) = serde_json::from_slice::<Sweep>(bytes) {
                try_out(sweep);
            }
        }
        _ => {
            let Ok(text) = std::str::from_utf8(bytes) else { return };
            let indented: String = text.lines().map(|line| format!("  {line}\n")).collect();
            if let Some(spec) = job_file::load(&format!("command: [\"true\"]\nsweep:\n{indented}")) {
                try_out(spec.sweep);
            }
        }
    })
}

/// Whatever it is, it gives values; a valid one as many at each index as it has names, and travels.
fn try_out(sweep: Sweep) {
    let job = JobSpec { sweep, ..JobSpec::new(CommandLine::Args(vec!["true".into()]), "/".into()) };
    let (is_valid, sweep) = (job.validate().is_empty(), &job.sweep);
    let n_tasks = sweep.n_tasks();
    for index in [0, 1, n_tasks / 2, n_tasks.saturating_sub(1), n_tasks, u64::MAX] {
        let values: Vec<String> = sweep.values(index).iter().map(ToString::to_string).collect();
        assert_eq!(values.len(), sweep.names().count());
        assert!(sweep.values(index).len() == values.len());
    }
    if is_valid {
        assert!(n_tasks > 0);
        let text = serde_json::to_string(sweep).expect("a valid sweep travels");
        assert_eq!(serde_json::from_str::<Sweep>(&text).expect("and arrives"), *sweep);
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let texts = [
        "a1-1000,2000-3000:2,7",
        "a0-9223372036854775806",
        "x: {range: [1, 100]}\ny: [a, 'b c', 3]",
        "x: {linspace: [0.5, 2.5, 9]}\nzip:\n- {a: [1, 2, 3], b: {range: [3, 1, -1]}}\nsample: {n: 5, seed: 3}",
        r#"{"dimensions":[{"columns":[{"name":"x","values":{"integers":[{"from":1,"step":2,"n":9}]}},
        {"name":"t","values":{"texts":["a","b","c","d","e","f","g","h","i"]}}]},
        {"columns":[{"name":"l","values":{"linspace":{"from":0.1,"to":0.9,"n":5}}}]}],"sample":{"n":7,"seed":42}}"#,
        r#"{"dimensions":[],"sample":null}"#,
    ];
    texts.map(|text| text.as_bytes().to_vec()).to_vec()
}
