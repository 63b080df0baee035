//! Whether a user may have more jobs: what is submitted, with all that the user has, is held to the user's quotas.

use protocol::users::{QuotaUse, QuotaView};
use scheduler::engine::interface::{Answer, JobRequest, Query, views::HoldingsView};

use super::Context;
use crate::api::{
    http::{counts::Share, error::ApiError, extract::User},
    pilots::places::Asker,
};
use crate::quotas::Kind;

/// What a submission would add.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Addition {
    pub(super) n_jobs: u64,
    pub(super) n_tasks: u64,
    pub(super) value_bytes: u64,
}

impl Addition {
    /// All of these jobs.
    pub(super) fn of<'a>(jobs: impl IntoIterator<Item = &'a JobRequest>) -> Addition {
        let mut all = Addition::default();
        for job in jobs {
            all.n_jobs += 1;
            all.n_tasks = all.n_tasks.saturating_add(job.n_tasks);
            all.value_bytes = all.value_bytes.saturating_add(job.spec.len() as u64);
        }
        all
    }
}

/// Keeps others of the user's submissions from what this one takes, until the engine has counted it.
pub(super) struct Admitted(#[expect(dead_code, reason = "it counts until it is dropped")] Vec<Share>);

impl Context {
    /// Lets a user have more jobs. `key`: that of the submission. One that is known is none.
    ///
    /// # Errors
    /// The user would have more than a quota allows, or the disk is full.
    pub(super) async fn admit(
        &self,
        user: &User,
        addition: Addition,
        key: Option<&str>,
    ) -> Result<Admitted, ApiError> {
        if self.state.reserve.is_low() {
            return Err(ApiError::disk_full());
        }
        let quota = self.state.quotas.of(user);
        let limits = [
            (Kind::Jobs, addition.n_jobs, quota.n_jobs),
            (Kind::Tasks, addition.n_tasks, quota.n_tasks),
            (Kind::Values, addition.value_bytes, quota.value_bytes),
        ];
        if limits.iter().all(|(_, _, most)| most.is_none()) {
            return Ok(Admitted(Vec::new()));
        }
        // First those that are on their way are counted, then those that are there: none is missed.
        let (shares, pending): (Vec<Share>, Vec<u64>) =
            limits.iter().map(|(kind, n, _)| self.counts.add(&user.name, *kind, *n)).unzip();
        let held = self.holdings(&user.name, key).await?;
        if held.is_known {
            return Ok(Admitted(shares));
        }
        let used = [held.n_jobs, held.n_tasks, held.value_bytes];
        for (((kind, n, most), used), pending) in limits.into_iter().zip(used).zip(pending) {
            if let Some(most) = most.filter(|most| used.saturating_add(pending) > *most) {
                let used = used.saturating_add(pending - n);
                return Err(ApiError::over_quota(&user.name, kind, (used, n), most));
            }
        }
        Ok(Admitted(shares))
    }

    /// What a user has of jobs.
    pub(super) async fn holdings(&self, user: &str, key: Option<&str>) -> Result<HoldingsView, ApiError> {
        let (user, key) = (user.to_owned(), key.map(str::to_owned));
        match self.query(Query::Holdings { user, key }).await? {
            Answer::Holdings(held) => Ok(*held),
            other => Err(ApiError::unexpected(&other)),
        }
    }

    /// What a user may take, and has.
    pub(super) async fn quota_view(&self, name: &str, is_operator: bool) -> Result<QuotaView, ApiError> {
        let quota = self.state.quotas.of_name(name, is_operator);
        let held = self.holdings(name, None).await?;
        let under_way = |kind: Kind| (kind.word(), self.counts.of(name, kind));
        let n_transfers = self.transfers.held(&Asker::User(name.to_owned()));
        let all = [
            ((Kind::Jobs.word(), held.n_jobs), quota.n_jobs),
            ((Kind::Tasks.word(), held.n_tasks), quota.n_tasks),
            ((Kind::Values.word(), held.value_bytes), quota.value_bytes),
            (("output", self.state.outputs.kept(name)), quota.output_bytes),
            (("files", self.objects.owners().bytes_of(name)), quota.file_bytes),
            (under_way(Kind::Streams), quota.n_streams),
            (under_way(Kind::Requests), quota.n_requests),
            (under_way(Kind::Connections), quota.n_connections),
            (("transfers", n_transfers), quota.n_transfers),
        ];
        let row = |((quota, used), most): ((&str, u64), _)| QuotaUse { quota: quota.to_owned(), used, most };
        Ok(QuotaView {
            user: name.to_owned(),
            is_operator,
            priority_over_all: quota.is_priority_over_all,
            quotas: all.into_iter().map(row).collect(),
        })
    }
}
