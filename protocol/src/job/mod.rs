//! The job: what a user asks for, resolved so that every machine understands it alike.
//!
//! A `JobSpec` is self-contained: files are globbed, tables read, paths absolute. The command line
//! makes it (`load_job_file`, cargo feature `author`, or the sweep's shorthands), the manager checks
//! it again (`validate`) and keeps it, pilots turn it into command lines (`compile`).

#[cfg(feature = "author")]
mod author;
mod compile;
mod estimates;
#[cfg(feature = "author")]
mod extract;
mod files;
pub mod limits;
mod positions;
pub mod script;
mod spec;
mod validate;
mod workflow;

#[cfg(feature = "author")]
pub use author::{
    Fields, JobFile, Locator, Node, Places, Reader, env_from_refusal, in_file, is_secret_value, job_schema,
    load_file, load_file_text, load_job_file, load_job_text, load_lines, load_text, parse_yaml,
    refuse_not_utf8, same_tasks, stands_in_yaml,
};
// It is said of other files, too.
#[cfg(feature = "author")]
pub use author::unreadable;
pub use compile::{Compiled, Sink, TaskCommand, WorkDir};
#[cfg(feature = "author")]
pub use extract::{Extracted, Extractor};
pub use files::{
    LocalFile,
    path::{STORE_SCHEME, Source, safe_relative},
    places::manager_folder,
    store_place::{StorePlace, is_store_name},
    taken::TakenFiles,
    task::{OutputTarget, Several, TaskInput, TaskOutputFile},
};
pub use script::{
    line_ends::LineEnds,
    shebang::{SHEBANG_BYTES_MAX, interpreter, shebang_with_carriage_return},
};
pub use spec::{
    CommandLine, Extract, Input, JobSpec, Keep, Keying, Objects, Output, Results, Retries, Stdio, Stream,
    WorkDirPolicy, default_application,
};
pub use workflow::{AfterSpec, OnSpec, StageSpec, WorkflowSpec};

pub use crate::problem::{Problem, nearest};

#[cfg(test)]
mod tests;
