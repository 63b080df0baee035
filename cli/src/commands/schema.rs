//! `pilotfish schema job`: the JSON Schema of job files.

use clap::{Args, ValueEnum};

use protocol::job::job_schema;

use crate::{
    failure::{Failure, Outcome},
    show,
};

const EXAMPLES: &str = "\
Examples:
  pilotfish schema job > job.schema.json
  # and as the first line of job.yaml, for editors with a YAML language server:
  # yaml-language-server: $schema=job.schema.json";

/// Which schema.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct SchemaArgs {
    /// Of what
    #[arg(value_enum)]
    of: SchemaOf,
}

/// What has a schema.
#[derive(Clone, Copy, ValueEnum)]
enum SchemaOf {
    /// Job files
    Job,
}

/// Prints it.
///
/// # Errors
/// Standard output cannot be written.
pub fn run(args: &SchemaArgs) -> Result<Outcome, Failure> {
    match args.of {
        SchemaOf::Job => show::print(&show::json(&job_schema())?)?,
    }
    Ok(Outcome::Fine)
}
