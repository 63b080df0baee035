//! Job files with their templates and patterns: read, or refused with words. One that is taken can be
//! validated, travels, and makes a command line for every task.

use std::path::Path;

use protocol::job::{Extractor, JobSpec, load_job_text};

use crate::{Check, Target, bound::Bound, world};

/// See the module.
pub const TARGET: Target = Target {
    name: "job_file",
    seeds,
    words: &[
        "name:",
        "application:",
        "command:",
        "sweep:",
        "env:",
        "workdir:",
        "resources:",
        "time_limit:",
        "priority:",
        "retries:",
        "success_codes:",
        "crash_limit:",
        "max_failures:",
        "stdio:",
        "results:",
        "resident:",
        "extract:",
        "keep:",
        "limit:",
        "range:",
        "linspace:",
        "zip:",
        "csv:",
        "sample:",
        "cores:",
        "memory:",
        "gpus:",
        "generic:",
        "stdin:",
        "stdout:",
        "stderr:",
        "path:",
        "scratch",
        "submit",
        "archive",
        "discard",
        "{x}",
        "{x.stem}",
        "{x:06}",
        "{x:.3f}",
        "{x:raw}",
        "{{",
        "}}",
        "{index}",
        "{number}",
        "${",
        "$(",
        "`",
        "'",
        "\\\"",
        "&a ",
        "*a",
        "!!str ",
        "? ",
        "<<: ",
        "- ",
        "|\n",
        ">\n",
        "---\n",
        "1h30m",
        "10GiB",
        "9223372036854775808",
        ".inf",
        "(?P<a>",
        "(a{1000}){1000}",
        "[^",
        "\\p{L}",
    ],
    start,
    bound: Bound { constant: 4 << 20, factor: 4096 },
    n_fast: 5_000,
};

fn start() -> Check {
    Box::new(|bytes| {
        let Ok(text) = std::str::from_utf8(bytes) else { return };
        if let Some(spec) = load(text) {
            try_out(&spec);
        }
    })
}

/// Reads a job file that names no files of this machine: what is in those is not the input's.
pub(crate) fn load(text: &str) -> Option<JobSpec> {
    if names_files(text) {
        return None;
    }
    match load_job_text(text, "fuzz.yaml", Path::new("/nowhere/at/all")) {
        Ok(spec) => Some(spec),
        Err(problems) => {
            assert!(!problems.is_empty(), "refused without a word");
            problems.iter().for_each(|problem| assert!(!problem.to_string().is_empty()));
            None
        }
    }
}

/// Whether it may look at files: patterns or inputs from the root, or with escapes in them.
fn names_files(text: &str) -> bool {
    let has_sources = ["files", "lines", "csv", "inputs"].iter().any(|word| text.contains(word));
    has_sources && text.contains(['/', '\\'])
}

fn try_out(spec: &JobSpec) {
    assert_eq!(spec.validate(), [], "a file that was taken is valid");
    let text = serde_json::to_string(spec).expect("a valid job travels");
    assert_eq!(serde_json::from_str::<JobSpec>(&text).expect("and arrives"), *spec);
    let compiled = spec.compile().expect("a valid job is compiled");
    let extractor = Extractor::new(&spec.results.extract).expect("a valid job's patterns are compiled");
    let n_tasks = compiled.n_tasks();
    for index in [0, n_tasks / 2, n_tasks - 1] {
        let task = compiled.task(7, index);
        let written = task.argv.join(" ");
        let found = extractor.extract(written.as_bytes(), spec.results.limit_bytes);
        assert_eq!(found.values.len(), spec.results.extract.len());
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let texts = [
        "name: waves\ncommand: \"awk 'BEGIN { print \\\"energy\\\", {amplitude}^2 * {frequency} }'\"\nsweep:\n  amplitude: {linspace: [0.5, 2.0, 4]}\n  frequency: [10, 20, 50]\nresults:\n  extract: {energy: 'energy ([0-9.]+)'}\n",
        "command: [vina, --seed, '{seed:06}', --in, '{ligand.stem}.{ligand.ext}', '{job}-{index}-{number}', '{cores}']\nsweep:\n  zip:\n  - {ligand: [a.pdbqt, 'b c.pdbqt'], seed: [1, 2]}\n  x: {range: [1, 10, 3]}\n  sample: {n: 3, seed: 9}\n",
        "name: all\napplication: vina\ncommand: echo {x:raw} \"{x}\" '{x}' `{x}` $(echo {x}) ${HOME} {{y}}\nsweep: {x: [1.5, true, text, '007']}\nenv: {A: '{x}', B: b}\nworkdir: {path: 'runs/{index:03}'}\nresources: {cores: 2, memory: 2GiB, gpus: 1, generic: {licence: 1}}\ntime_limit: 1h30m\npriority: -3\nretries: {count: 2, delay: 5s}\nsuccess_codes: [0, 3]\ncrash_limit: 3\nmax_failures: 10\nstdio: {stdin: discard, stdout: archive, stderr: 'err/{index}.txt'}\nresults: {keep: failed, limit: 64KiB, budget: 2GiB, files: 9, extract: {a: '^(\\w+)$', b: 'x(?:y)?'}}\n",
        "command: [serve]\nresident: true\nsweep: {x: {range: [0, 999999999]}}\n",
        "command: &c [echo, *c]\nsweep:\n\tx: 1\n",
        "commnad: [x]\nsweep: {index: [1], 'a b': [2], y: {linspace: [1, 2]}, z: {files: 'none*'}}\n",
    ];
    let mut seeds = texts.map(|text| text.as_bytes().to_vec()).to_vec();
    // JSON is YAML too.
    seeds.push(serde_json::to_vec(&world::spec()).expect("JSON"));
    seeds
}
