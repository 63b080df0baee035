//! The open tasks that wait for other tasks. This follows from the records; it is kept so that the end of a
//! task costs no more than its own dependencies: rules are evaluated on ranges, listed dependencies are
//! counted.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    edges::{Edges, OnFailedDependency, Successors},
    engine::{
        interface::job_request::JobRequest,
        record::{FailedAttempt, Record, Verdict},
        state::{durable::Durable, job::Job},
    },
    ids::JobId,
    ranges::TaskSet,
};

/// The dependencies of all jobs, as far as they matter now.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// Jobs that have not ended and depend on others, or whose tasks depend on each other.
    nodes: BTreeMap<JobId, Node>,
    /// The jobs whose tasks depend on tasks of a job, ended or not.
    followers: BTreeMap<JobId, BTreeSet<JobId>>,
    /// Tasks that have ended or were reopened, and whose consequences are still to be applied.
    changed: BTreeMap<JobId, TaskSet>,
}

/// The dependencies of a job's tasks.
#[derive(Clone, Debug, Default)]
struct Node {
    /// Open tasks that wait for open tasks.
    blocked: TaskSet,
    /// Number of open tasks among those listed for each task; empty if none are listed.
    n_missing: Vec<u32>,
    /// The counts of each dependence with listed tasks.
    listed: BTreeMap<usize, Counted>,
}

/// Listed dependencies in reverse, and which of the tasks on which others depend count as ended.
#[derive(Clone, Debug)]
struct Counted {
    successors: Successors,
    ended: TaskSet,
}

/// Listed dependencies in reverse, of ended jobs, by job and dependence.
pub type Backwards = BTreeMap<(JobId, usize), Successors>;

/// The changes of a job's tasks after others changed.
#[derive(Default)]
pub struct Shift {
    /// Tasks that no longer wait for others.
    pub freed: TaskSet,
    /// Tasks that wait for others again.
    pub blocked: TaskSet,
}

impl Graph {
    /// Returns the dependencies that follow from the records of all jobs.
    pub fn rebuild(durable: &Durable) -> Graph {
        let mut graph = Graph::default();
        durable.jobs().keys().for_each(|id| graph.add_job(durable, *id));
        graph
    }

    /// Adds a job that is new or open again.
    pub fn add_job(&mut self, durable: &Durable, id: JobId) {
        let Some(job) = durable.jobs().get(&id).filter(|job| !job.request.after.is_empty()) else { return };
        for dependence in &job.request.after {
            self.followers.entry(dependence.on).or_default().insert(id);
        }
        if job.ended_at.is_none() && !self.nodes.contains_key(&id) {
            self.nodes.insert(id, Node::new(durable, job));
        }
    }

    /// Removes a job that has ended.
    pub fn remove_job(&mut self, id: JobId) {
        self.nodes.remove(&id);
    }

    /// Removes a purged job on which no other depends.
    pub fn purge_job(&mut self, id: JobId, request: &JobRequest) {
        for dependence in &request.after {
            if let Some(followers) = self.followers.get_mut(&dependence.on) {
                followers.remove(&id);
                if followers.is_empty() {
                    self.followers.remove(&dependence.on);
                }
            }
        }
    }

    /// Returns the jobs whose tasks depend on tasks of this one, which may be among them.
    pub fn followers(&self, id: JobId) -> impl Iterator<Item = JobId> {
        self.followers.get(&id).into_iter().flatten().copied()
    }

    /// Returns the job and all jobs in a cycle of dependencies with it. O((dependencies between jobs)^2).
    pub fn knot(&self, id: JobId) -> BTreeSet<JobId> {
        let mut knot = self.behind(id);
        knot.retain(|other| self.behind(*other).contains(&id));
        knot.insert(id);
        knot
    }

    /// Returns the jobs that depend on the job, directly or through others.
    fn behind(&self, id: JobId) -> BTreeSet<JobId> {
        let (mut behind, mut next) = (BTreeSet::new(), vec![id]);
        while let Some(id) = next.pop() {
            next.extend(self.followers(id).filter(|follower| behind.insert(*follower)));
        }
        behind
    }

    /// Returns the open tasks of the job that wait for others.
    pub fn blocked(&self, id: JobId) -> Option<&TaskSet> {
        self.nodes.get(&id).map(|node| &node.blocked).filter(|blocked| !blocked.is_empty())
    }

    /// Returns their number.
    pub fn n_blocked(&self, id: JobId) -> u64 {
        self.blocked(id).map_or(0, TaskSet::len)
    }

    /// Returns whether a change of the job's tasks affects any other task. O(log jobs).
    fn is_concerned(&self, id: JobId) -> bool {
        self.followers.contains_key(&id) || self.nodes.contains_key(&id)
    }

    /// Notes the tasks that a record has ended or reopened.
    pub fn note(&mut self, record: &Record) {
        match record {
            Record::TasksCancelled { job, tasks, .. } | Record::TasksReopened { job, tasks, .. } => {
                self.note_changed(*job, tasks);
            }
            Record::Reported { results, .. } => {
                for result in results {
                    self.note_changed(result.job, &result.successes.tasks);
                    let is_final = |failure: &&FailedAttempt| failure.verdict == Verdict::Final;
                    let failed = result.failures.iter().filter(is_final).map(|failure| failure.index);
                    self.note_changed(result.job, &failed.collect());
                }
            }
            Record::PilotLost { blamed, .. } => {
                for blame in blamed.iter().filter(|blame| blame.verdict == Verdict::Final) {
                    let index = blame.task.index;
                    self.note_changed(blame.task.job, &TaskSet::from(index..index.saturating_add(1)));
                }
            }
            _ => {}
        }
    }

    /// Notes tasks of a job that have ended or were reopened.
    pub fn note_changed(&mut self, id: JobId, tasks: &TaskSet) {
        if !tasks.is_empty() && self.is_concerned(id) {
            self.changed.entry(id).or_default().insert_all(tasks);
        }
    }

    /// Returns the changes since the last call.
    pub fn take_changed(&mut self) -> BTreeMap<JobId, TaskSet> {
        std::mem::take(&mut self.changed)
    }

    /// Returns whether the consequences of all changes have been applied.
    pub fn is_settled(&self) -> bool {
        self.changed.is_empty()
    }

    /// Applies changes of these tasks of a job and returns the consequences for open tasks: for its own, and
    /// for those that depend on them. O(ranges and listed dependencies of these tasks).
    pub fn shift(&mut self, durable: &Durable, id: JobId, tasks: &TaskSet) -> Vec<(JobId, Shift)> {
        let mut shifts = Vec::new();
        if let (Some(node), Some(job)) = (self.nodes.get_mut(&id), durable.jobs().get(&id)) {
            let open = tasks.intersection(&job.open);
            node.blocked.remove_all(tasks);
            let blocked = node.waiting(durable, job, &open);
            node.blocked.insert_all(&blocked);
            shifts.push((id, Shift { blocked, freed: TaskSet::new() }));
        }
        for follower in self.followers.get(&id).into_iter().flatten() {
            let (Some(node), Some(job)) = (self.nodes.get_mut(follower), durable.jobs().get(follower)) else {
                continue;
            };
            shifts.push((*follower, node.shift(durable, job, id, tasks)));
        }
        shifts
    }

    /// Returns the tasks of jobs, ended or not, that depend on these tasks. Reverse lists made for ended jobs
    /// stay in `cache` for later calls.
    pub fn waiting_for(
        &self,
        durable: &Durable,
        cache: &mut Backwards,
        id: JobId,
        tasks: &TaskSet,
    ) -> Vec<(JobId, TaskSet)> {
        let mut all = Vec::new();
        for follower in self.followers.get(&id).into_iter().flatten() {
            let Some(job) = durable.jobs().get(follower) else { continue };
            let node = self.nodes.get(follower);
            all.push((*follower, dependants(durable, node, cache, (*follower, job), id, tasks)));
        }
        all
    }

    /// Panics if the kept state differs from that of the records. For tests.
    pub fn check(&self, durable: &Durable) {
        let anew = Graph::rebuild(durable);
        assert!(self.is_settled(), "what follows from ended tasks is not done: {:?}", self.changed);
        assert_eq!(self.followers, anew.followers, "who waits for whom");
        assert_eq!(
            self.nodes.keys().collect::<Vec<_>>(),
            anew.nodes.keys().collect::<Vec<_>>(),
            "jobs that wait"
        );
        for (id, node) in &self.nodes {
            let (other, job) = (&anew.nodes[id], &durable.jobs()[id]);
            assert_eq!(node.blocked, other.blocked, "blocked tasks of job {id}");
            assert_eq!(node.n_missing, other.n_missing, "what tasks of job {id} wait for");
            let in_vain = lost_before(durable, job, &job.open, &BTreeMap::new());
            assert!(in_vain.is_empty(), "tasks {in_vain} of job {id} wait in vain");
        }
    }
}

impl Node {
    fn new(durable: &Durable, job: &Job) -> Node {
        let mut node = Node::default();
        for (at, dependence) in job.request.after.iter().enumerate() {
            let (Edges::Listed(listed), Some(on)) = (&dependence.edges, durable.jobs().get(&dependence.on))
            else {
                continue;
            };
            // Tasks beyond the lists miss nothing, however many there are.
            node.n_missing.resize(node.n_missing.len().max(listed.n_lists() as usize), 0);
            let mut ended = TaskSet::from(0..on.request.n_tasks);
            ended.remove_all(&on.open);
            for task in 0..listed.n_lists() {
                let missing = listed.of(task).filter(|before| on.open.contains(*before)).count();
                if let Some(n) = node.n_missing.get_mut(task as usize) {
                    *n += missing as u32;
                }
            }
            let successors = Successors::of_listed(listed, on.request.n_tasks);
            node.listed.insert(at, Counted { successors, ended });
        }
        node.blocked = node.waiting(durable, job, &job.open);
        node
    }

    /// Returns which of these tasks of the job wait for open tasks.
    fn waiting(&self, durable: &Durable, job: &Job, among: &TaskSet) -> TaskSet {
        let mut waiting = TaskSet::new();
        if among.is_empty() {
            return waiting;
        }
        for dependence in &job.request.after {
            let Some(on) = durable.jobs().get(&dependence.on) else { continue };
            match &dependence.edges {
                Edges::Listed(_) => {}
                edges => waiting.insert_all(&edges.waiting(among, &on.open, on.request.n_tasks)),
            }
        }
        if !self.listed.is_empty() {
            let misses =
                |index: &u64| self.n_missing.get(*index as usize).is_some_and(|missing| *missing > 0);
            let listed = TaskSet::from(0..self.n_missing.len() as u64);
            waiting.extend_indices(among.intersection(&listed).indices().filter(misses));
        }
        waiting
    }

    /// Applies changes of these tasks of `on`.
    fn shift(&mut self, durable: &Durable, job: &Job, on: JobId, tasks: &TaskSet) -> Shift {
        let Some(before) = durable.jobs().get(&on) else { return Shift::default() };
        let opened = tasks.intersection(&before.open);
        let mut ended = tasks.clone();
        ended.remove_all(&opened);
        let (mut may_go, mut must_wait) = (TaskSet::new(), TaskSet::new());
        for (at, dependence) in job.request.after.iter().enumerate() {
            if dependence.on != on {
                continue;
            }
            match self.listed.get_mut(&at) {
                Some(counted) => {
                    let (freed, blocked) = counted.count(&mut self.n_missing, &ended, &opened);
                    may_go.insert_all(&freed);
                    must_wait.insert_all(&blocked);
                }
                None => {
                    // A task that depends on all others is not looked at before all have ended.
                    if dependence.edges != Edges::All || before.open.is_empty() {
                        may_go.insert_all(&dependence.edges.dependants(&ended, job.request.n_tasks, None));
                    }
                    must_wait.insert_all(&dependence.edges.dependants(&opened, job.request.n_tasks, None));
                }
            }
        }
        let mut freed = may_go.intersection(&self.blocked);
        let waiting = self.waiting(durable, job, &freed);
        freed.remove_all(&waiting);
        self.blocked.remove_all(&freed);
        let mut blocked = must_wait.intersection(&job.open);
        blocked.remove_all(&self.blocked);
        self.blocked.insert_all(&blocked);
        Shift { freed, blocked }
    }
}

impl Counted {
    /// Counts ended and reopened tasks, once each. Returns the tasks that no longer wait, and those that wait
    /// again.
    fn count(&mut self, n_missing: &mut [u32], ended: &TaskSet, opened: &TaskSet) -> (TaskSet, TaskSet) {
        let (mut freed, mut blocked) = (TaskSet::new(), TaskSet::new());
        let mut new = ended.clone();
        new.remove_all(&self.ended);
        let listed = self.successors.tasks();
        for before in new.intersection(&listed).indices() {
            for after in self.successors.of(before) {
                let Some(n) = n_missing.get_mut(after as usize) else { continue };
                *n = n.saturating_sub(1);
                if *n == 0 {
                    freed.insert(after);
                }
            }
        }
        self.ended.insert_all(&new);
        let again = opened.intersection(&self.ended);
        for before in again.intersection(&listed).indices() {
            for after in self.successors.of(before) {
                let Some(n) = n_missing.get_mut(after as usize) else { continue };
                *n += 1;
                blocked.insert(after);
            }
        }
        self.ended.remove_all(&again);
        (freed, blocked)
    }
}

/// Returns the tasks of a job, ended or not, that depend on these tasks of `on`.
fn dependants(
    durable: &Durable,
    node: Option<&Node>,
    cache: &mut Backwards,
    (id, job): (JobId, &Job),
    on: JobId,
    tasks: &TaskSet,
) -> TaskSet {
    let mut all = TaskSet::new();
    let n_on = durable.jobs().get(&on).map_or(0, |on| on.request.n_tasks);
    for (at, dependence) in job.request.after.iter().enumerate().filter(|(_, d)| d.on == on) {
        let counted = node.and_then(|node| node.listed.get(&at)).map(|counted| &counted.successors);
        let successors = match (&dependence.edges, counted) {
            // An ended job keeps no reverse lists.
            (Edges::Listed(listed), None) => {
                let anew = || Successors::of_listed(listed, n_on);
                Some(&*cache.entry((id, at)).or_insert_with(anew))
            }
            (_, counted) => counted,
        };
        all.insert_all(&dependence.edges.dependants(tasks, job.request.n_tasks, successors));
    }
    all
}

/// Returns which of these tasks of a job depend on tasks that failed for good or were cancelled, if the job's
/// rule does not ignore that. Tasks in `opened` count as open again.
pub fn lost_before(
    durable: &Durable,
    job: &Job,
    among: &TaskSet,
    opened: &BTreeMap<JobId, TaskSet>,
) -> TaskSet {
    let mut lost = TaskSet::new();
    if job.request.on_failed_dependency == OnFailedDependency::Run || among.is_empty() {
        return lost;
    }
    for dependence in &job.request.after {
        let Some(on) = durable.jobs().get(&dependence.on) else { continue };
        let mut of_it = on.lost();
        if let Some(opened) = opened.get(&dependence.on) {
            of_it.remove_all(opened);
        }
        lost.insert_all(&dependence.edges.waiting(among, &of_it, on.request.n_tasks));
    }
    lost
}
