//! Everything that can go wrong in a user's hands, and what they are told: the real program, real
//! files, real managers. Each case proves its exit code, an empty standard output, and its message.

#[path = "errors/disks.rs"]
mod disks;
#[path = "errors/flags.rs"]
mod flags;
#[path = "errors/folders.rs"]
mod folders;
#[path = "errors/job_files.rs"]
mod job_files;
#[path = "errors/managers.rs"]
mod managers;
#[path = "errors/page.rs"]
mod page;
#[path = "errors/papers.rs"]
mod papers;
#[path = "errors/pilots.rs"]
mod pilots;
#[path = "errors/scenarios.rs"]
mod scenarios;
#[path = "errors/tasks.rs"]
mod tasks;
#[path = "errors/values.rs"]
mod values;
#[path = "errors/what_if.rs"]
mod what_if;
