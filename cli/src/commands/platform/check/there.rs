//! What is looked at and cleared away where a platform's commands are run.

use std::time::{Duration, Instant};

use adapters::{
    Adapter, TAG_PREFIX,
    command::{BatchId, BatchJob, BatchState, Command, JOB_LOG, Output},
};
use manager::platforms::place::{Place, SHELL};
use scheduler::engine::interface::views::AllocationView;

use crate::show::format;

/// To look at files and to start a program, over slow lines and on slow disks.
const LIMIT: Duration = Duration::from_secs(60);

/// How often a listing is asked for what is on its way out.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Writes some blocks into the folder `$1` and reads them, then prints how many KiB are free there.
const TRY_FOLDER: &str = r#"umask 077; mkdir -p "$1" && cd "$1" || exit
try=.try.$$; head -c 65536 /dev/zero > "$try"; n=$(wc -c < "$try"); rm -f "$try"
[ "$n" -eq 65536 ] || { echo "only $n of 65536 bytes arrived" >&2; exit 1; }
df -Pk . | { read -r _; read -r _ _ _ free _; echo "$free"; }"#;

/// Prints the end of the first of these files that has something in it.
const END_OF: &str = r#"for file; do [ -s "$file" ] && tail -n 5 "$file" | tail -c 1000 && exit; done; true"#;

/// What pilots without a batch job write into their folder.
const PILOT_LOG: &str = "pilot.log";

/// Takes away folders.
const REMOVE: &str = r#"rm -rf -- "$@""#;

fn shell(lines: &str, words: impl IntoIterator<Item = String>) -> Command {
    Command::shell(SHELL, lines, words, Vec::new(), LIMIT)
}

/// Whether pilots' files can be written; gives where they are.
pub(super) async fn folder(place: &mut Place) -> Result<String, String> {
    let folder = place.ground().await?.folder;
    let said = place.said(&format!("write in {folder}"), shell(TRY_FOLDER, [folder.clone()])).await?;
    let free = said.trim().parse::<u64>().ok().and_then(|kib| kib.checked_mul(1024));
    Ok(free.map_or(folder.clone(), |free| format!("{folder}, {} free", format::bytes(free))))
}

/// Whether the agent can be run; gives its version and where it is.
pub(super) async fn agent(place: &Place) -> Result<String, String> {
    let words = place.agent();
    let path = words.first().map_or("", String::as_str);
    let command = shell("exec \"$@\"", words.iter().cloned().chain(["--version".to_owned()]));
    let said = place.said(&format!("run the agent {path}"), command).await?;
    match said.split_whitespace().collect::<Vec<_>>()[..] {
        [name, version] if name.starts_with("pilotfish") => Ok(format!("{version}, {path}")),
        _ => Err(format!("{path} is no agent; asked for its version it said `{}`", shown(&said))),
    }
}

/// Batch jobs of pilots that have not ended.
/// Those with the ids of `known` are among them even if somebody renamed them.
pub(super) async fn listed(place: &Place, known: &[(BatchId, String)]) -> Result<Vec<BatchJob>, String> {
    let ids: Vec<BatchId> = known.iter().map(|(id, _)| id.clone()).collect();
    let mut jobs = place.list(TAG_PREFIX, &ids).await?;
    for (job, of_known) in place.renamed(TAG_PREFIX, known, &jobs) {
        jobs[job].tag.clone_from(&known[of_known].1);
    }
    let is_there = |job: &BatchJob| job.state != BatchState::Ended && job.tag.starts_with(TAG_PREFIX);
    Ok(jobs.into_iter().filter(is_there).collect())
}

/// Waits until a listing shows none of them: tasks of a job array leave it later than their pilots do. After
/// `limit`: what the last listing showed, or why there was none.
pub(super) async fn are_gone(
    place: &Place,
    allocations: &[AllocationView],
    limit: Duration,
) -> Result<(), String> {
    let is_ours = |job: &&BatchJob| allocations.iter().any(|allocation| allocation.tag == job.tag);
    let known = |allocation: &AllocationView| Some((allocation.batch_id.clone()?, allocation.tag.clone()));
    let known: Vec<(BatchId, String)> = allocations.iter().filter_map(known).collect();
    let began = Instant::now();
    loop {
        let left = match listed(place, &known).await {
            Ok(jobs) => jobs.iter().filter(is_ours).map(|job| format!("{} ({})", job.id, job.tag)).collect(),
            Err(why) => vec![why],
        };
        if left.is_empty() {
            return Ok(());
        }
        if began.elapsed() > limit {
            return Err(format!("what was asked for may still be there, look yourself: {}", left.join(", ")));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// What is known of an allocation whose pilot does not come: what its batch job wrote, or why it waits.
pub(super) async fn known_of(place: &mut Place, allocation: &AllocationView) -> Option<String> {
    place.keep_written(allocation.batch_id.as_slice()).await;
    let ground = place.ground().await.ok()?;
    let folder = place.log_folder(&ground, &allocation.tag);
    let logs = [JOB_LOG, PILOT_LOG].map(|log| format!("{folder}/{log}"));
    let wrote = place.said("read", shell(END_OF, logs)).await.unwrap_or_default();
    if !wrote.trim().is_empty() {
        return Some(format!("it wrote: {}", shown(&wrote)));
    }
    let id = allocation.batch_id.as_ref().filter(|_| allocation.ended_at.is_none())?;
    let why = place.said("ask why it waits", place.adapter()?.why_it_waits(id)?).await.ok()?;
    (!why.trim().is_empty())
        .then(|| format!("{} says: {}", place.adapter().map_or("", Adapter::name), shown(&why)))
}

/// Takes away what pilots that are gone have left.
pub(super) async fn remove(place: &mut Place, allocations: &[AllocationView]) -> Result<(), String> {
    if allocations.is_empty() {
        return Ok(());
    }
    let ground = place.ground().await?;
    let folders = allocations.iter().map(|allocation| ground.pilot_folder(&allocation.tag));
    place.said("take away the probe's folder", shell(REMOVE, folders)).await.map(drop)
}

/// In one line of moderate length.
fn shown(said: &str) -> String {
    Output { code: None, stdout: said.to_owned(), stderr: String::new() }.words()
}
