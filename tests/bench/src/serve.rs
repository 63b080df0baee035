//! The manager of simulated pilots: the product's library, started as `pilotfish serve` starts it,
//! with a platform whose allocations are granted at once and whose pilots come from elsewhere.

use std::{fs, path::PathBuf};

use manager::{config::Config, store::Store};
use scheduler::{
    engine::interface::{Answer, Event, SubmitOutcome, settings::Settings},
    ids::AllocationId,
    resources::Resources,
    time::Span,
};

use crate::{Trouble, place::Expected, plain};

/// As many threads as `pilotfish` has.
const N_WORKERS: usize = 2;

/// Serves until it is killed. Writes the beginning of its allocations' tags to the file `ready`.
pub fn serve(folder: PathBuf, expected: Expected) -> Result<(), Trouble> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(N_WORKERS).enable_all().build()?;
    runtime.block_on(async {
        let store_id = Store::open(&folder)?.id();
        let mut config = Config::new(folder.clone(), "bench".to_owned());
        let Expected { n_pilots, cores, has_grace } = expected;
        if !has_grace {
            config.settings.grace = Span::ZERO;
        }
        let settings = config.settings;
        let mut manager = manager::start(config).await?;
        let spec = plain::platform(n_pilots, cores);
        let answer = manager.handle().ask(|request| Event::PlatformAttached { request, spec }).await?;
        if !matches!(answer, Answer::Attached(_)) {
            return Err(format!("the platform was not attached: {answer:?}").into());
        }
        for n in 1..=u64::from(n_pilots) {
            let outcome = SubmitOutcome::Accepted(n.to_string());
            manager.handle().tell(Event::AllocationAnswered { allocation: AllocationId(n), outcome }).await?;
        }
        let prefix = Settings { store_id, ..settings }.tag_prefix();
        let draft = folder.join("ready.new");
        fs::write(&draft, prefix)?;
        fs::rename(&draft, folder.join("ready"))?;
        manager.wait().await?;
        Ok(())
    })
}

/// What a simulated pilot offers.
pub fn capacity(cores: u32) -> Resources {
    Resources { memory_bytes: 64 << 30, ..Resources::cores(cores) }
}
