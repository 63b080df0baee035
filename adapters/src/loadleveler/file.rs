//! The job command file of a pilot: keywords, and the script that begins an agent on every node.

use profiles::site::Site;

use crate::{
    command::AllocationRequest,
    script::{self, quoted, script_on_each, script_without_secret},
};

/// Its name in the pilot's folder.
pub(super) const NAME: &str = "job.cmd";

/// Between it and the join document.
pub(super) const END: &str = script::END;

/// From the soft limit of time, at which processes get SIGXCPU, to the hard one, at which they are killed.
const GRACE_S: u64 = 60;

/// Lines that begin the script again on each host of the step, there with the step's id. LoadLeveler's own
/// launcher ends what it began with the step; without one there is SSH.
const ON_EACH: &str = r#"trap 'rm -f "$join"' EXIT
trap 'kill $agents 2>/dev/null; wait; exit 143' TERM
PATH=$PATH:/opt/ibmll/LoadL/full/bin:/opt/ibmll/LoadL/scheduler/full/bin:/usr/lpp/LoadL/full/bin
launcher='ssh -o BatchMode=yes'
command -v llspawn.stdio >/dev/null && launcher=llspawn.stdio
hosts=$(cat "$LOADL_HOSTFILE" 2>/dev/null || printf '%s\n' $LOADL_PROCESSOR_LIST)
[ -n "$hosts" ] || { echo "LoadLeveler names no hosts" >&2; exit 1; }
for host in $(printf '%s\n' $hosts | sort -u); do
$launcher "$host" /bin/sh "$script" "$LOADL_STEP_ID" </dev/null &
agents="$agents $!"
done
wait
exit"#;

/// A tag as the name of a job, of which other programs believe that it has letters, digits and `_` only.
pub(super) fn job_name(tag: &str) -> String {
    tag.replace('-', "_")
}

/// The tag of a job of that name; tags have no `_`.
pub(super) fn tag(job_name: &str) -> String {
    job_name.replace('_', "-")
}

/// The whole file. Errors: what cannot be asked of LoadLeveler, in words.
pub(super) fn job_command_file(
    site: &Site,
    agent: &[String],
    request: &AllocationRequest,
) -> Result<String, &'static str> {
    let AllocationRequest { n_nodes, folder, .. } = request;
    let (file, join) = (format!("{folder}/{NAME}"), format!("{folder}/join"));
    let script = match n_nodes {
        1 => script_without_secret(site, agent, request, &quoted(&join)),
        // A launcher may give its words to a shell, or not.
        _ if quoted(folder) != *folder => {
            return Err("pilots of several nodes need a folder whose path has no blanks and no quotes");
        }
        _ => {
            let begin = format!("join={join} script={file}\n{ON_EACH}");
            script_on_each(site, agent, &begin, request, &join)
        }
    };
    let (first, rest) = script.split_once('\n').unwrap_or((&script, ""));
    let keywords = keywords(site, request)?;
    let keywords = keywords.iter().map(|(keyword, value)| format!("# @ {keyword} = {value}\n"));
    Ok(format!("{first}\n{}# @ queue\n{rest}", keywords.collect::<String>()))
}

/// Keywords and values; those of the site stand in place of ours.
fn keywords(site: &Site, request: &AllocationRequest) -> Result<Vec<(String, String)>, &'static str> {
    let AllocationRequest { tag, n_nodes, capacity, walltime, .. } = request;
    let cores = capacity.cores.max(1);
    let mut ours = vec![("job_name", job_name(tag))];
    ours.extend(site.queue.iter().map(|class| ("class", class.clone())));
    ours.extend(site.account.iter().map(|account| ("account_no", account.clone())));
    ours.extend([
        ("job_type", "parallel".to_owned()),
        ("node", n_nodes.to_string()),
        // As many as there are cores: sites that count by tasks count right, and so does the load.
        ("tasks_per_node", cores.to_string()),
    ]);
    if let Some(walltime) = walltime {
        let soft = walltime.0.div_ceil(1_000_000).max(1);
        ours.push(("wall_clock_limit", format!("{},{soft}", soft.saturating_add(GRACE_S))));
    }
    let names = &site.resource_names;
    if capacity.memory_bytes > 0 {
        let name = names.memory_resource.as_deref().unwrap_or("ConsumableMemory");
        // Of each task.
        let mebibytes = capacity.memory_bytes.div_ceil(1 << 20).div_ceil(u64::from(cores));
        ours.push(("resources", format!("{name}({mebibytes} mb)")));
    }
    if capacity.gpus > 0 {
        let name = names.gpu_resource.as_deref();
        let name = name.ok_or("GPUs need the platform's gpu_resource: LoadLeveler has no word for them")?;
        ours.push(("node_resources", format!("{name}({})", capacity.gpus)));
    }
    ours.extend([
        // A folder that every host has; what the script prints is of no interest.
        ("initialdir", "/".to_owned()),
        ("shell", "/bin/sh".to_owned()),
        ("notification", "never".to_owned()),
        ("restart", "no".to_owned()),
    ]);
    let theirs: Vec<(String, String)> = site.options.iter().filter_map(|option| keyword(option)).collect();
    let is_theirs = |ours: &str| theirs.iter().any(|(theirs, _)| theirs.eq_ignore_ascii_case(ours));
    ours.retain(|(keyword, _)| !is_theirs(keyword));
    let ours = ours.into_iter().map(|(keyword, value)| (keyword.to_owned(), value));
    Ok(ours.chain(theirs).collect())
}

/// `keyword = value`.
fn keyword(option: &str) -> Option<(String, String)> {
    let (keyword, value) = option.split_once('=')?;
    Some((keyword.trim().to_owned(), value.trim().to_owned()))
}
