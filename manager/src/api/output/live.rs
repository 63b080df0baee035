//! What running tasks write, in memory, while somebody follows it: pilots bring it, followers fetch it.
//!
//! Nothing here is kept, decided by, or asked for where nobody follows. A follower is one who has asked within
//! the last seconds; when the last one of a job is gone, so is what was held for them.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use protocol::{
    follow::{Piece, StreamName, Written},
    pilot::{Tail, TailsAnswer, TailsRequest, Wanted},
};
use scheduler::{
    ids::{JobId, PilotId},
    ranges::TaskSet,
    results::Report,
};

/// Who has not asked for so long follows no more.
const PATIENCE: Duration = Duration::from_secs(10);
/// Pilots that begin to run what is followed are told to show it within this time.
const LOOK_INTERVAL: Duration = Duration::from_millis(700);
/// A pilot that shows what its tasks write is heard of more often.
const SHOWING: Duration = Duration::from_secs(3);
/// Jobs that are followed at a time.
const N_WATCHES_MAX: usize = 64;
/// Followers of one job that want different tasks; beyond, all of its tasks are shown.
const N_WISHES_MAX: usize = 32;
/// Tasks of one job whose output is held.
const N_TAILS_MAX: usize = 4096;
/// Bytes held of one task: followers come for them several times a second.
const TAIL_BYTES_MAX: usize = 512 << 10;
/// Bytes for one follower at a time.
const ANSWER_BYTES_MAX: usize = 4 << 20;
/// Bytes held of all tasks.
const LIVE_BYTES_MAX: usize = 32 << 20;
/// What a piece takes beside its text.
const PIECE_BYTES: usize = size_of::<HeldPiece>() + 16;
/// Attempts that are remembered to be older than the one of which output is held.
const N_OLDER_MAX: usize = 8;

/// All that is followed.
pub(in crate::api) struct Live {
    /// So that pulls need not wait for the lock where nobody follows.
    is_any: AtomicBool,
    state: Mutex<State>,
}

struct State {
    watches: BTreeMap<JobId, Watch>,
    pilots: HashMap<PilotId, Showing>,
    n_watches_ever: u64,
    /// The number of the last piece. Larger than any that a manager before us gave.
    last_piece: u64,
    n_bytes: usize,
}

/// One job that is followed.
struct Watch {
    number: u64,
    /// Of which tasks (`None`: all), and when that was last asked for.
    wishes: Vec<(Option<TaskSet>, Instant)>,
    /// When pilots were last looked for.
    looked_at: Option<Instant>,
    tails: BTreeMap<u64, Held>,
}

/// What one attempt of a task has written.
struct Held {
    attempt: u32,
    pilot: PilotId,
    run: u64,
    /// Those before it, by pilot and run: what they still tell comes too late.
    older: VecDeque<(PilotId, u64)>,
    /// How far each stream is known.
    ends: [u64; 2],
    pieces: VecDeque<HeldPiece>,
    n_bytes: usize,
}

struct HeldPiece {
    number: u64,
    stream: StreamName,
    at: u64,
    bytes: Vec<u8>,
}

#[derive(Default)]
struct Showing {
    last_report: u64,
    heard_at: Option<Instant>,
}

/// Whom to ask for what a follower wants.
pub(in crate::api) struct Look {
    pub(in crate::api) tasks: Option<TaskSet>,
    /// Pilots that show it already.
    pub(in crate::api) except: BTreeSet<PilotId>,
}

/// What there is for a follower.
pub(in crate::api) struct Fresh {
    pub(in crate::api) pieces: Vec<Piece>,
    pub(in crate::api) since: u64,
    pub(in crate::api) look: Option<Look>,
}

impl Default for Live {
    fn default() -> Live {
        let micros = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_micros();
        let state = State {
            watches: BTreeMap::new(),
            pilots: HashMap::new(),
            n_watches_ever: u64::try_from(micros).unwrap_or(0),
            last_piece: u64::try_from(micros).unwrap_or(0),
            n_bytes: 0,
        };
        Live { is_any: AtomicBool::new(false), state: Mutex::new(state) }
    }
}

impl Live {
    /// A follower asks for what came after piece `since`; `None`: too many jobs are followed already.
    pub(in crate::api) fn follow(
        &self,
        job: JobId,
        tasks: Option<&TaskSet>,
        since: u64,
        now: Instant,
    ) -> Option<Fresh> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.forget_who_is_gone(now);
        if !state.watches.contains_key(&job) && state.watches.len() >= N_WATCHES_MAX {
            return None;
        }
        self.is_any.store(true, Ordering::Relaxed);
        let last = state.last_piece;
        let except: BTreeSet<PilotId> = state.showing(now).collect();
        state.n_watches_ever += 1;
        let number = state.n_watches_ever;
        let watch = state.watches.entry(job).or_insert_with(|| Watch {
            number,
            wishes: Vec::new(),
            looked_at: None,
            tails: BTreeMap::new(),
        });
        watch.wish(tasks, now);
        let is_due = watch.looked_at.is_none_or(|at| now.duration_since(at) >= LOOK_INTERVAL);
        let look = is_due.then(|| {
            watch.looked_at = Some(now);
            Look { tasks: watch.tasks(), except }
        });
        // A number that was not given here: all that there is, which the follower knows how to take.
        let since = if since > last { 0 } else { since };
        let (pieces, since) = watch.after(since, tasks, last);
        Some(Fresh { pieces, since, look })
    }

    /// A pilot's report has come, and goes to be kept: what was held of its tasks is old.
    pub(in crate::api) fn note_report(&self, pilot: PilotId, report: &Report, now: Instant) {
        if !self.is_any.load(Ordering::Relaxed) {
            return;
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.forget_who_is_gone(now);
        self.is_any.store(!state.watches.is_empty(), Ordering::Relaxed);
        if state.watches.is_empty() {
            return;
        }
        let showing = state.pilots.entry(pilot).or_default();
        showing.last_report = showing.last_report.max(report.seq);
        let mut n_freed = 0;
        for part in &report.jobs {
            let Some(watch) = state.watches.get_mut(&part.job).filter(|watch| !watch.tails.is_empty()) else {
                continue;
            };
            let tasks = part.tasks();
            watch.tails.retain(|index, held| {
                let is_old = held.pilot == pilot && tasks.contains(*index);
                n_freed += if is_old { held.n_bytes } else { 0 };
                !is_old
            });
        }
        state.n_bytes -= n_freed;
    }

    /// A pilot shows what its tasks have written.
    pub(in crate::api) fn take(&self, request: TailsRequest, now: Instant) -> TailsAnswer {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.forget_who_is_gone(now);
        self.is_any.store(!state.watches.is_empty(), Ordering::Relaxed);
        if state.watches.is_empty() {
            return TailsAnswer { is_void: false, wanted: Vec::new() };
        }
        let showing = state.pilots.entry(request.pilot).or_default();
        showing.heard_at = Some(now);
        let is_void = showing.last_report > request.n_reports;
        if !is_void {
            request.tails.into_iter().for_each(|tail| state.hold(request.pilot, tail));
        }
        let wanted =
            |(job, watch): (&JobId, &Watch)| Wanted { watch: watch.number, job: *job, tasks: watch.tasks() };
        TailsAnswer { is_void, wanted: state.watches.iter().map(wanted).collect() }
    }
}

impl State {
    fn forget_who_is_gone(&mut self, now: Instant) {
        for watch in self.watches.values_mut() {
            watch.wishes.retain(|(_, asked_at)| now.saturating_duration_since(*asked_at) < PATIENCE);
        }
        self.watches.retain(|_, watch| !watch.wishes.is_empty());
        if self.watches.is_empty() {
            self.pilots.clear();
        }
        let held = self.watches.values().flat_map(|watch| watch.tails.values());
        self.n_bytes = held.map(|held| held.n_bytes).sum();
    }

    fn showing(&self, now: Instant) -> impl Iterator<Item = PilotId> + '_ {
        let is_showing = move |showing: &Showing| {
            showing.heard_at.is_some_and(|at| now.saturating_duration_since(at) < SHOWING)
        };
        self.pilots.iter().filter(move |(_, showing)| is_showing(showing)).map(|(pilot, _)| *pilot)
    }

    fn hold(&mut self, pilot: PilotId, tail: Tail) {
        let Some(watch) = self.watches.get_mut(&tail.job) else { return };
        let index = tail.written.index;
        let is_full = watch.tails.len() >= N_TAILS_MAX && !watch.tails.contains_key(&index);
        if is_full || !watch.wants(index) {
            return;
        }
        let anew = |number: u32| Held {
            attempt: number,
            pilot,
            run: tail.run,
            older: VecDeque::new(),
            ends: [0; 2],
            pieces: VecDeque::new(),
            n_bytes: 0,
        };
        let held = watch.tails.entry(index).or_insert_with(|| anew(tail.attempt));
        let (known, told) = ((held.pilot, held.run), (pilot, tail.run));
        if held.older.contains(&told) || known.0 == pilot && known.1 > tail.run {
            return;
        }
        if known != told {
            self.n_bytes -= held.n_bytes;
            let mut older = std::mem::take(&mut held.older);
            older.push_front(known);
            older.truncate(N_OLDER_MAX);
            *held = Held { older, ..anew(tail.attempt) };
        }
        let n_before = held.n_bytes;
        let streams = [
            (StreamName::Stdout, tail.stdout_at, tail.written.stdout),
            (StreamName::Stderr, tail.stderr_at, tail.written.stderr),
        ];
        for (n, (stream, at, bytes)) in streams.into_iter().enumerate() {
            self.last_piece += held.add(n, (stream, at, bytes), self.last_piece + 1);
        }
        held.cut(TAIL_BYTES_MAX);
        self.n_bytes = self.n_bytes + held.n_bytes - n_before;
        if self.n_bytes > LIVE_BYTES_MAX {
            self.make_room();
        }
    }

    /// Everybody's half: what is older is with the followers by now, or will come with the reports.
    fn make_room(&mut self) {
        for held in self.watches.values_mut().flat_map(|watch| watch.tails.values_mut()) {
            held.cut(held.n_bytes / 2);
        }
        let held = self.watches.values().flat_map(|watch| watch.tails.values());
        self.n_bytes = held.map(|held| held.n_bytes).sum();
    }
}

impl Watch {
    fn wish(&mut self, tasks: Option<&TaskSet>, now: Instant) {
        let n = self.wishes.len();
        match self.wishes.iter_mut().find(|(wish, _)| wish.as_ref() == tasks) {
            Some((_, asked_at)) => *asked_at = now,
            None if n < N_WISHES_MAX => self.wishes.push((tasks.cloned(), now)),
            None => self.wishes = vec![(None, now)],
        }
    }

    fn wants(&self, index: u64) -> bool {
        self.wishes.iter().any(|(tasks, _)| tasks.as_ref().is_none_or(|tasks| tasks.contains(index)))
    }

    fn tasks(&self) -> Option<TaskSet> {
        let mut all = TaskSet::new();
        for (tasks, _) in &self.wishes {
            all.insert_all(tasks.as_ref()?);
        }
        Some(all)
    }

    /// Pieces after `since`, as many as fit into an answer, and the number of the last one that was looked at;
    /// `last`: the number of the last there is.
    fn after(&self, since: u64, tasks: Option<&TaskSet>, last: u64) -> (Vec<Piece>, u64) {
        let is_meant = |index: &u64| tasks.is_none_or(|tasks| tasks.contains(*index));
        let mut found = Vec::new();
        for (index, held) in self.tails.iter().filter(|(index, _)| is_meant(index)) {
            let new = held.pieces.iter().rev().take_while(|piece| piece.number > since);
            found.extend(new.map(|piece| {
                let HeldPiece { number, stream, at, bytes } = piece;
                let written = Written::of(bytes.clone());
                let Held { attempt, pilot, run, .. } = *held;
                (*number, Piece { index: *index, attempt, pilot, run, stream: *stream, at: *at, written })
            }));
        }
        found.sort_unstable_by_key(|(number, _)| *number);
        let (mut n_bytes, mut last) = (0, last);
        let n = found.iter().take_while(|(_, piece)| {
            let has_room = n_bytes < ANSWER_BYTES_MAX;
            n_bytes += piece.written.text.len();
            has_room
        });
        let n = n.count();
        if n < found.len() {
            last = found.get(n.wrapping_sub(1)).map_or(since, |(number, _)| *number);
        }
        found.truncate(n);
        (found.into_iter().map(|(_, piece)| piece).collect(), last)
    }
}

impl Held {
    /// Adds what is new of a piece; says how many pieces that makes.
    fn add(&mut self, n: usize, (stream, mut at, mut bytes): (StreamName, u64, Vec<u8>), number: u64) -> u64 {
        let known = usize::try_from(self.ends[n].saturating_sub(at)).unwrap_or(usize::MAX);
        if known >= bytes.len() {
            return 0;
        }
        bytes.drain(..known);
        at = at.saturating_add(known as u64);
        self.ends[n] = at.saturating_add(bytes.len() as u64);
        self.n_bytes += bytes.len() + PIECE_BYTES;
        self.pieces.push_back(HeldPiece { number, stream, at, bytes });
        1
    }

    fn cut(&mut self, n_bytes_max: usize) {
        while self.n_bytes > n_bytes_max
            && let Some(piece) = self.pieces.pop_front()
        {
            self.n_bytes -= piece.bytes.len() + PIECE_BYTES;
        }
    }
}

#[cfg(test)]
mod tests {
    use scheduler::results::{JobReport, TaskOutput};

    use super::*;

    const JOB: JobId = JobId(7);

    fn tail(index: u64, run: u64, at: u64, text: &str) -> Tail {
        let written = TaskOutput { index, stdout: text.into(), stderr: Vec::new() };
        Tail { job: JOB, attempt: 1, run, stdout_at: at, stderr_at: 0, written }
    }

    fn told(live: &Live, n_reports: u64, tails: Vec<Tail>, now: Instant) -> TailsAnswer {
        live.take(TailsRequest { pilot: PilotId(2), n_reports, tails }, now)
    }

    fn shown(fresh: &Fresh) -> Vec<(u64, u64, &str)> {
        fresh.pieces.iter().map(|piece| (piece.index, piece.at, &*piece.written.text)).collect()
    }

    #[test]
    fn what_comes_twice_is_shown_once_and_each_follower_goes_on_where_he_was() {
        let (live, now) = (Live::default(), Instant::now());
        assert!(live.follow(JOB, None, 0, now).unwrap().look.is_some());
        assert_eq!(told(&live, 0, vec![tail(3, 1, 0, "ab")], now).wanted.len(), 1);
        told(&live, 0, vec![tail(3, 1, 0, "abc"), tail(4, 2, 9, "x")], now);
        let fresh = live.follow(JOB, None, 0, now).unwrap();
        assert_eq!(shown(&fresh), [(3, 0, "ab"), (3, 2, "c"), (4, 9, "x")]);
        assert!(fresh.look.is_none(), "that was a moment ago");
        told(&live, 0, vec![tail(3, 1, 3, "d")], now);
        let only = TaskSet::from(3..4);
        let next = live.follow(JOB, Some(&only), fresh.since, now).unwrap();
        assert_eq!(shown(&next), [(3, 3, "d")]);
        assert_eq!(live.follow(JOB, None, u64::MAX, now).unwrap().pieces.len(), 4, "of another manager");
        let later = now + LOOK_INTERVAL;
        assert_eq!(live.follow(JOB, None, 0, later).unwrap().look.unwrap().except, [PilotId(2)].into());
    }

    #[test]
    fn what_a_report_has_overtaken_is_not_taken_and_what_it_is_about_is_dropped() {
        let (live, now) = (Live::default(), Instant::now());
        live.follow(JOB, None, 0, now).unwrap();
        told(&live, 4, vec![tail(3, 1, 0, "ab"), tail(5, 2, 0, "x")], now);
        let mut part = JobReport::new(JOB);
        part.returned = TaskSet::from(3..4);
        live.note_report(PilotId(2), &Report { seq: 5, jobs: vec![part] }, now);
        assert_eq!(shown(&live.follow(JOB, None, 0, now).unwrap()), [(5, 0, "x")]);
        assert!(told(&live, 4, vec![tail(3, 1, 0, "ab")], now).is_void);
        assert_eq!(live.follow(JOB, None, 0, now).unwrap().pieces.len(), 1);
        assert!(!told(&live, 5, vec![tail(3, 9, 0, "again")], now).is_void);
        told(&live, 5, vec![tail(3, 1, 0, "of an older attempt")], now);
        assert_eq!(shown(&live.follow(JOB, None, 0, now).unwrap()), [(5, 0, "x"), (3, 0, "again")]);
    }

    #[test]
    fn a_lost_pilots_task_is_shown_where_it_runs_again_whatever_the_number_of_that_pilot() {
        let (live, now) = (Live::default(), Instant::now());
        live.follow(JOB, None, 0, now).unwrap();
        let told = |pilot, run, text: &str| {
            live.take(
                TailsRequest { pilot: PilotId(pilot), n_reports: 0, tails: vec![tail(3, run, 0, text)] },
                now,
            );
            live.follow(JOB, None, 0, now)
                .unwrap()
                .pieces
                .pop()
                .map(|piece| (piece.pilot.0, piece.written.text))
        };
        assert_eq!(told(5, 7, "first"), Some((5, "first".into())));
        assert_eq!(told(3, 2, "second"), Some((3, "second".into())));
        // What the first one had sent before it was lost comes late.
        assert_eq!(told(5, 7, "first of all"), Some((3, "second".into())));
        assert_eq!(told(3, 1, "older"), Some((3, "second".into())));
        assert_eq!(told(3, 4, "third"), Some((3, "third".into())));
    }

    #[test]
    fn nothing_is_held_where_nobody_follows_and_not_more_than_fits() {
        let (live, now) = (Live::default(), Instant::now());
        let piece = "x".repeat(TAIL_BYTES_MAX / 2);
        assert!(told(&live, 0, vec![tail(3, 1, 0, &piece)], now).wanted.is_empty());
        live.follow(JOB, None, 0, now).unwrap();
        for index in 0..200 {
            for n in 0..3 {
                told(&live, 0, vec![tail(index, 1, n * piece.len() as u64, &piece)], now);
                let held = |state: &State| (state.n_bytes, state.watches[&JOB].tails[&index].n_bytes);
                let (all, of_it) = held(&live.state.lock().unwrap());
                assert!(all <= LIVE_BYTES_MAX && of_it <= TAIL_BYTES_MAX, "{all} {of_it}");
            }
        }
        // Many short pieces take more than their text.
        for n in 0..2 * TAIL_BYTES_MAX / PIECE_BYTES {
            told(&live, 0, vec![tail(500, 1, n as u64, ".")], now);
        }
        assert!(
            live.state.lock().unwrap().watches[&JOB].tails[&500].pieces.len() <= TAIL_BYTES_MAX / PIECE_BYTES
        );
        for other in 0..N_WATCHES_MAX as u64 - 1 {
            assert!(live.follow(JobId(100 + other), None, 0, now).is_some());
        }
        assert!(live.follow(JobId(999), None, 0, now).is_none());
        let later = now + PATIENCE;
        assert!(told(&live, 0, vec![tail(3, 1, 0, "x")], later).wanted.is_empty(), "nobody follows any more");
        assert_eq!(live.state.lock().unwrap().n_bytes, 0);
        assert!(!live.is_any.load(Ordering::Relaxed));
    }
}
