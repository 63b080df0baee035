//! `pilotfish export`: a job's results as a table, a row a task, page by page.

mod columns;
mod csv_file;
mod json_lines;
mod parquet_file;
mod rows;

use std::{
    fs::File,
    io::{self, IsTerminal, Seek, Write},
    path::{Path, PathBuf},
};

use clap::{Args, ValueEnum};

use protocol::api::Tasks;
use scheduler::{engine::interface::TaskFilter, ids::JobId};

use crate::{
    access::Where,
    client::{Client, Page},
    commands::task::tasks::StateArg,
    failure::{Failure, Outcome},
    select::JobSelector,
    show::{self, format::counted, harmless::HarmlessWriter, job::warn_of_lost_output},
    sys::whole::{WholeFile, is_device},
    view::Reader,
};
use columns::{Columns, Value};
use rows::{Form, Source};

const EXAMPLES: &str = "\
Examples:
  pilotfish export last                               CSV on standard output
  pilotfish export 3 -o results.parquet
  pilotfish export 3 --state done --format jsonl | jq .affinity
  pilotfish export 3 -o results.csv --spreadsheet

Columns: index, state, exit_code, attempt, pilot, started (RFC 3339),
duration_s, cpu_s, memory_bytes, failure, then the job's parameters, then what
its `results.extract` found.";

/// Rows asked for at a time.
const PAGE_ROWS: u64 = 5000;

/// Which job, and in which form.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct ExportArgs {
    /// Which: a number or last
    #[arg(value_name = "JOB")]
    job: String,
    /// The form; default: by the file's name, csv for standard output
    #[arg(short, long, value_enum)]
    format: Option<Format>,
    /// The file, written whole or not at all; `-` or none: standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Only tasks in this state
    #[arg(long, value_enum, default_value = "all")]
    state: StateArg,
    /// CSV for spreadsheets: put an apostrophe before texts that look like formulas
    #[arg(long)]
    spreadsheet: bool,
    #[command(flatten)]
    place: Where,
}

impl ExportArgs {
    /// The file to be written; `None`: standard output.
    fn file(&self) -> Option<&Path> {
        self.output.as_deref().filter(|path| *path != Path::new("-"))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Comma-separated values
    Csv,
    /// A JSON object a line
    Jsonl,
    /// Apache Parquet
    Parquet,
}

impl Format {
    fn word(self) -> &'static str {
        match self {
            Format::Csv => "CSV",
            Format::Jsonl => "JSON Lines",
            Format::Parquet => "Parquet",
        }
    }
}

/// Takes rows and writes them. The rows have the values of the columns it was made with.
trait RowWriter {
    /// One more row.
    fn row(&mut self, values: Vec<Value>) -> io::Result<()>;
    /// Nothing follows.
    fn finish(self: Box<Self>) -> io::Result<()>;
}

/// Exports.
///
/// # Errors
/// No such job, no manager and no store, or a file that cannot be written.
pub async fn run(args: ExportArgs) -> Result<Outcome, Failure> {
    let selector = JobSelector::parse(&args.job)?;
    if let Some(path) = args.file().filter(|path| path.file_name().is_none()) {
        return Err(Failure::bad_input(format!("--output: found `{}`; name a file", path.display())));
    }
    let form = Form { format: format_of(&args)?, is_for_spreadsheets: args.spreadsheet };
    let reader = Reader::open(&args.place).await?;
    let client = &reader.client;
    let job = selector.resolve_one(client).await?;
    let rows = Rows { client, job, state: args.state.into() };
    let mut columns = Columns::of(&client.spec(job).await?);
    if columns.has_extracts() {
        warn_of_lost_output(&client.job(job).await?);
    }
    match args.file() {
        None if io::stdout().is_terminal() => {
            write_once(&rows, &mut columns, form, HarmlessWriter::new(io::stdout())).await?;
        }
        None => write_once(&rows, &mut columns, form, io::stdout()).await?,
        Some(path) if is_device(path) => {
            let device = File::options().write(true).open(path);
            let device = device.map_err(|error| Failure::file("write", path, &error))?;
            write_once(&rows, &mut columns, form, device).await?;
        }
        Some(path) => {
            let failed = |error: io::Error| Failure::file("write", path, &error);
            let whole = WholeFile::begin(path).map_err(failed)?;
            let n_rows = match rows::is_to_be_learned(&columns, form) {
                true => rows::write_learned(&rows, &mut columns, form, whole.file()).await?,
                false => rows::write(&rows, &columns, form, whole.file()).await?,
            };
            whole.finish().map_err(failed)?;
            show::say(&format!("{} in {}", counted(n_rows, "row"), path.display()));
        }
    }
    Ok(Outcome::Fine)
}

/// Writes all rows to where nothing that was written can be taken back.
async fn write_once(
    rows: &Rows<'_>,
    columns: &mut Columns,
    form: Form,
    mut to: impl Write + Send,
) -> Result<(), Failure> {
    if !rows::is_to_be_learned(columns, form) {
        rows::write(rows, columns, form, to).await?;
        return Ok(());
    }
    let failed = |error: io::Error| Failure::file("write a temporary file in", &std::env::temp_dir(), &error);
    let mut file = tempfile::tempfile().map_err(failed)?;
    rows::write_learned(rows, columns, form, &file).await?;
    file.rewind()?;
    io::copy(&mut file, &mut to)?;
    Ok(to.flush()?)
}

fn format_of(args: &ExportArgs) -> Result<Format, Failure> {
    let file = args.file();
    let format = match (args.format, file) {
        (Some(format), file) => {
            if let Some(named) =
                file.and_then(|file| format_of_name(file).ok()).filter(|named| *named != format)
            {
                let (is, says) = (format.word(), named.word());
                let file = file.unwrap_or(Path::new("")).display();
                show::say(&format!(
                    "warning: {file} is written as {is}, as --format says; its name says {says}"
                ));
            }
            format
        }
        (None, None) => Format::Csv,
        (None, Some(file)) => format_of_name(file)?,
    };
    if format == Format::Parquet && file.is_none() && io::stdout().is_terminal() {
        return Err(Failure::bad_input(
            "Parquet is not for terminals; name a file with -o, or redirect the output",
        ));
    }
    if args.spreadsheet && format != Format::Csv {
        let found = format.word();
        return Err(Failure::bad_input(format!("--spreadsheet: found the form {found}; it is for CSV only")));
    }
    Ok(format)
}

fn format_of_name(file: &Path) -> Result<Format, Failure> {
    let extension = file.extension().and_then(|extension| extension.to_str()).map(str::to_lowercase);
    match extension.as_deref() {
        Some("parquet" | "pq") => Ok(Format::Parquet),
        Some("jsonl" | "ndjson") => Ok(Format::Jsonl),
        Some("csv") => Ok(Format::Csv),
        Some(_) | None => Err(Failure::bad_input(format!(
            "--output: found `{}`, whose name does not say the form; end it in .csv, .jsonl, .ndjson, .parquet or .pq, or give --format",
            file.display()
        ))),
    }
}

/// The rows to be exported.
struct Rows<'a> {
    client: &'a Client,
    job: JobId,
    state: TaskFilter,
}

impl Source for Rows<'_> {
    async fn page(&self, from: u64) -> Result<Tasks, Failure> {
        let page = Page { state: self.state, from, limit: PAGE_ROWS, with_extracts: true };
        Ok(self.client.tasks(self.job, page).await?)
    }
}
