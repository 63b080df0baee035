//! `pilotfish export`: a job's results as a table, a row a task, page by page.

mod columns;
mod csv_file;
mod json_lines;
mod parquet_file;

use std::{
    fs::File,
    io::{self, BufWriter, IsTerminal, Write},
    path::{Path, PathBuf},
};

use clap::{Args, ValueEnum};

use protocol::api::TaskRow;
use scheduler::{engine::interface::TaskFilter, ids::JobId};

use crate::{
    access::Where,
    client::{Client, Page},
    commands::tasks::StateArg,
    failure::{Failure, Outcome},
    select::JobSelector,
    show::{self, format::counted, harmless::HarmlessWriter, job::warn_of_lost_output},
    view::Reader,
};
use columns::{Columns, Value};

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
    /// CSV for spreadsheets: texts that these would take for formulas begin with an apostrophe
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
    let partial = args.file().map(partial_path).transpose()?;
    let format = format_of(&args)?;
    let reader = Reader::open(&args.place).await?;
    let client = &reader.client;
    let job = selector.resolve_one(client).await?;
    let rows = Rows { client, job, state: args.state.into(), is_for_spreadsheets: args.spreadsheet };
    let mut columns = Columns::of(&client.spec(job).await?);
    if format != Format::Csv && columns.has_extracts() {
        // Whether a column is one of numbers must be known before the first row.
        rows.each(|row| {
            columns.learn(&row);
            Ok(())
        })
        .await?;
        columns.settle();
    }
    if columns.has_extracts() {
        warn_of_lost_output(&client.job(job).await?);
    }
    let (Some(path), Some(partial)) = (args.file(), partial) else {
        let to: Box<dyn Write + Send> = match io::stdout().is_terminal() {
            true => Box::new(HarmlessWriter::new(io::stdout())),
            false => Box::new(io::stdout()),
        };
        rows.write(&columns, format, to).await?;
        return Ok(Outcome::Fine);
    };
    if is_device(path) {
        let device = File::options().write(true).open(path);
        let device = device.map_err(|error| Failure::file("write", path, &error))?;
        rows.write(&columns, format, Box::new(device)).await?;
        return Ok(Outcome::Fine);
    }
    let file = File::create(&partial).map_err(|error| Failure::file("write", path, &error))?;
    let n_rows = match rows.write(&columns, format, Box::new(file)).await {
        Ok(n_rows) => n_rows,
        Err(failure) => {
            // The failure says enough; half a file would say something wrong.
            let _ = std::fs::remove_file(&partial);
            return Err(failure);
        }
    };
    std::fs::rename(&partial, path).map_err(|error| Failure::file("write", path, &error))?;
    show::say(&format!("{} in {}", counted(n_rows, "row"), path.display()));
    Ok(Outcome::Fine)
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

/// Whether a file of another name cannot take its place: a device, a pipe.
fn is_device(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir())
}

fn partial_path(path: &Path) -> Result<PathBuf, Failure> {
    let Some(name) = path.file_name() else {
        return Err(Failure::bad_input(format!("--output: found `{}`; name a file", path.display())));
    };
    let mut partial = std::ffi::OsString::from(".");
    partial.push(name);
    partial.push(".partial");
    Ok(path.with_file_name(partial))
}

/// The rows to be exported.
struct Rows<'a> {
    client: &'a Client,
    job: JobId,
    state: TaskFilter,
    is_for_spreadsheets: bool,
}

impl Rows<'_> {
    /// Writes all of them; gives their number.
    async fn write(
        &self,
        columns: &Columns,
        format: Format,
        to: Box<dyn Write + Send>,
    ) -> Result<u64, Failure> {
        let to = BufWriter::new(to);
        let mut writer: Box<dyn RowWriter> = match format {
            Format::Csv => Box::new(csv_file::CsvFile::new(columns, to, self.is_for_spreadsheets)?),
            Format::Jsonl => Box::new(json_lines::JsonLines::new(columns, to)),
            Format::Parquet => Box::new(parquet_file::ParquetFile::new(columns, to)?),
        };
        let mut n_rows = 0;
        self.each(|row| {
            n_rows += 1;
            Ok(writer.row(columns.values(row))?)
        })
        .await?;
        writer.finish()?;
        Ok(n_rows)
    }

    /// Hands them over one by one, in order, page by page.
    async fn each(&self, mut take: impl FnMut(TaskRow) -> Result<(), Failure>) -> Result<(), Failure> {
        let mut from = 0;
        loop {
            let page = Page { state: self.state, from, limit: PAGE_ROWS, with_extracts: true };
            let answer = self.client.tasks(self.job, page).await?;
            for row in answer.tasks {
                take(row)?;
            }
            match answer.next {
                Some(next) if next > from => from = next,
                _ => return Ok(()),
            }
        }
    }
}
