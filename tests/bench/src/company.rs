//! How simulated pilots take tasks from each other: whom they ask and for what is as with agents, but they ask
//! within this process.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use scheduler::{
    ids::PilotId,
    policy::stealing::hunt::{victim, whom_to_ask},
    rng::Rng,
};
use tokio::sync::{mpsc, oneshot};

use crate::pilots::Heard;

/// All pilots of a fleet.
#[derive(Default)]
pub struct Company(Mutex<Vec<Member>>);

/// A pilot as others see it.
#[derive(Clone)]
pub struct Member {
    pub pilot: PilotId,
    /// How many tasks others may take there.
    pub n_to_take: Arc<AtomicU64>,
    pub ask: mpsc::UnboundedSender<Heard>,
}

impl Company {
    fn members(&self) -> MutexGuard<'_, Vec<Member>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn join(&self, member: Member) {
        self.members().push(member);
    }

    /// Asks some of the others for tasks; how many are on their way.
    pub async fn hunt(&self, thief: PilotId, seed: u64) -> u64 {
        let (answer, answered) = oneshot::channel();
        {
            let members = self.members();
            let here = members.iter().position(|member| member.pilot == thief).unwrap_or(0);
            let mut luck = Rng::new(seed);
            let asked = whom_to_ask(members.len(), here, &mut luck);
            let loads = asked.map(|at| (at, members[at].n_to_take.load(Ordering::Relaxed) as usize));
            let Some(at) = victim(loads) else { return 0 };
            if members[at].ask.send(Heard::AskedFor { thief, answer }).is_err() {
                return 0;
            }
        }
        answered.await.unwrap_or(0)
    }
}
