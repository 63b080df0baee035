//! Logs in the Standard Workload Format (Chapin et al., 1999; version 2.2): a line for each job, 18 numbers,
//! -1 for an unknown value, comments behind semicolons. Plain or compressed by gzip.

use std::{
    collections::{HashMap, HashSet},
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::{Path, PathBuf},
};

use flate2::read::MultiGzDecoder;

use super::workload::{Job, Workload};

/// The fields of a line, in their order.
const FIELDS: [&str; 18] = [
    "job number",
    "submit time",
    "wait time",
    "run time",
    "number of allocated processors",
    "average CPU time used",
    "used memory",
    "requested number of processors",
    "requested time",
    "requested memory",
    "status",
    "user ID",
    "group ID",
    "executable number",
    "queue number",
    "partition number",
    "preceding job number",
    "think time",
];

/// The latest submission of a job in a log, in seconds: some 300 years. A simulation with time as a float
/// would stand still at a much larger time.
const SUBMIT_S_MAX: f64 = 1e10;
/// The longest runtime of a job in a log, in seconds: 5 years. A simulation takes longer the more days it
/// has, and one of centuries would seem endless.
const RUNTIME_S_MAX: f64 = 157_680_000.0;
/// The longest time between submissions of jobs that ran, in seconds: 30 years, for the same reason.
const LOG_S_MAX: f64 = 946_080_000.0;

/// The index of the status field.
const STATUS: usize = 10;

/// The statuses of parts of jobs: to be continued, the last part, and the last part of a job that failed.
const PARTIAL: [&str; 3] = ["2", "3", "4"];

/// A parsed log.
#[derive(Clone, Debug, PartialEq)]
pub struct Log {
    /// Jobs that ran for some time on some processors.
    pub workload: Workload,
    /// Number of other lines: jobs that were cancelled before they started, or without a size.
    pub n_skipped: u64,
    /// `MaxProcs` of the header, else `MaxNodes`.
    pub n_cores: Option<u64>,
    /// `MaxJobs` of the header; if there are fewer lines, the file is a part of the log.
    pub n_announced: Option<u64>,
}

/// The reason why a log cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// The file does not exist or cannot be opened.
    #[error("{}: found no file that can be opened ({cause}); check the path", path.display())]
    Unopened {
        /// The file.
        path: PathBuf,
        /// The system's message.
        cause: io::Error,
    },
    /// The file is not text, or ends within its compressed stream.
    #[error("{}:{line}: found what cannot be read ({cause}); {}", path.display(), hint_of(cause))]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The line of the error, from 1.
        line: u64,
        /// The system's message.
        cause: io::Error,
    },
    /// A line without all its fields: most often the last one of a file that was cut off.
    #[error(
        "{}:{line}: found {found} fields; a line has 18, and field {} ({}) is missing: is the file cut off here?",
        path.display(), found + 1, FIELDS[*found]
    )]
    CutOff {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// Number of fields.
        found: usize,
    },
    /// A field has an invalid value.
    #[error("{}:{line}: field {} ({}): found `{found}`; write {expected}", path.display(), field + 1, FIELDS[*field])]
    Field {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The field, from 0.
        field: usize,
        /// The invalid value.
        found: String,
        /// The right form.
        expected: &'static str,
    },
    /// A log without any job that ran.
    #[error("{}: found no job that ran; a log needs one at least", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

/// Returns a hint to the cause of an unreadable file.
fn hint_of(cause: &io::Error) -> &'static str {
    match cause.kind() {
        io::ErrorKind::UnexpectedEof => "is the file cut off here?",
        io::ErrorKind::IsADirectory => "name a file",
        _ => "is the file damaged?",
    }
}

/// The first bytes of a gzip file.
const GZIP_MARK: &[u8] = b"\x1f\x8b";

/// Reads a log, compressed or not, whatever its name. Estimates are set to the runtimes.
pub fn read(path: &Path) -> Result<Log, Trouble> {
    let file = File::open(path).map_err(|cause| Trouble::Unopened { path: path.to_owned(), cause })?;
    let mut file = BufReader::new(file);
    // The parser reports a read error.
    let is_compressed = file.fill_buf().is_ok_and(|start| start.starts_with(GZIP_MARK));
    if is_compressed { parse(path, MultiGzDecoder::new(file)) } else { parse(path, file) }
}

/// Reads a log from these bytes; errors name `path`.
pub fn parse(path: &Path, bytes: impl Read) -> Result<Log, Trouble> {
    let mut log = Log { workload: Workload::new(Vec::new()), n_skipped: 0, n_cores: None, n_announced: None };
    let (mut jobs, mut parts, mut first_at) = (Vec::new(), Parts::default(), None);
    let (mut bytes, mut raw) = (BufReader::new(bytes), Vec::new());
    for line in 1.. {
        let place = Place { path, line };
        raw.clear();
        let read = bytes.read_until(b'\n', &mut raw);
        let n_read = read.map_err(|cause| Trouble::Unreadable { path: path.to_owned(), line, cause })?;
        if n_read == 0 {
            break;
        }
        let raw = if line == 1 { raw.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&raw) } else { &raw };
        // Comments of old logs contain names in Latin-1; fields are digits.
        let text = String::from_utf8_lossy(raw);
        if let Some(comment) = text.trim_start().strip_prefix(';') {
            log.hear(comment);
        } else if !text.trim().is_empty() {
            let found = place.job(&text)?;
            place.near(&text, &mut first_at, found.job.as_ref())?;
            match (found.job, found.is_part) {
                (job, true) => parts.add(found.number, job),
                (job, false) => {
                    parts.have_job(found.number);
                    match job {
                        Some(job) => jobs.push(job),
                        None => log.n_skipped += 1,
                    }
                }
            }
        }
    }
    jobs.extend(parts.jobs());
    if jobs.is_empty() {
        return Err(Trouble::Empty { path: path.to_owned() });
    }
    log.workload = Workload::new(jobs);
    Ok(log)
}

/// The byte order mark, which spreadsheets and Windows editors put in front of a file.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Parts of jobs that were interrupted and continued.
#[derive(Default)]
struct Parts {
    /// The numbers of jobs that have a line for the whole job.
    whole: HashSet<String>,
    /// The sums of the parts of each other job.
    sums: HashMap<String, Job>,
}

impl Parts {
    fn have_job(&mut self, number: &str) {
        if !self.whole.contains(number) {
            self.whole.insert(number.to_owned());
        }
    }

    fn add(&mut self, number: &str, part: Option<Job>) {
        let Some(part) = part else { return };
        match self.sums.get_mut(number) {
            Some(job) => {
                job.submitted_at = job.submitted_at.min(part.submitted_at);
                job.cores = job.cores.max(part.cores);
                job.runtime += part.runtime;
                job.estimate = job.runtime;
            }
            None => _ = self.sums.insert(number.to_owned(), part),
        }
    }

    /// Returns the jobs that have only lines for their parts, in the order of their submission.
    fn jobs(self) -> Vec<Job> {
        let Parts { whole, sums } = self;
        let alone = sums.into_iter().filter(|(number, _)| !whole.contains(number));
        let mut jobs: Vec<(String, Job)> = alone.collect();
        jobs.sort_by(|(a, one), (b, other)| {
            one.submitted_at.total_cmp(&other.submitted_at).then_with(|| (a.len(), a).cmp(&(b.len(), b)))
        });
        jobs.into_iter().map(|(_, job)| job).collect()
    }
}

impl Log {
    /// Reads a comment of the header: `Word: value`.
    fn hear(&mut self, comment: &str) {
        let Some((word, value)) = comment.split_once(':') else { return };
        let value = value.split_whitespace().next().and_then(|value| value.parse().ok());
        match word.trim() {
            "MaxProcs" => self.n_cores = value.or(self.n_cores),
            "MaxNodes" => self.n_cores = self.n_cores.or(value),
            "MaxJobs" => self.n_announced = value,
            _ => {}
        }
    }
}

/// A line of a file.
#[derive(Clone, Copy)]
struct Place<'a> {
    path: &'a Path,
    line: u64,
}

/// The content of a line.
struct Found<'t> {
    /// The job's number.
    number: &'t str,
    /// Whether it is a part of a job that has other lines, too.
    is_part: bool,
    /// The job; `None`: it never ran.
    job: Option<Job>,
}

impl Place<'_> {
    fn job<'t>(self, text: &'t str) -> Result<Found<'t>, Trouble> {
        let fields: Vec<&str> = text.split_whitespace().collect();
        if fields.len() < FIELDS.len() {
            return Err(Trouble::CutOff { path: self.path.to_owned(), line: self.line, found: fields.len() });
        }
        // Unused fields may hold anything.
        let (submitted_at, runtime) = (self.number(&fields, 1)?, self.number(&fields, 3)?);
        if submitted_at < 0.0 {
            return Err(self.trouble(&fields, 1, "0 or more seconds"));
        }
        if submitted_at > SUBMIT_S_MAX {
            return Err(self.trouble(&fields, 1, "at most 10000000000 seconds"));
        }
        if runtime > RUNTIME_S_MAX {
            return Err(self.trouble(&fields, 3, "at most 157680000 seconds, which are 5 years"));
        }
        if runtime < 0.0 && runtime != -1.0 {
            return Err(self.trouble(&fields, 3, "0 or more seconds, or -1"));
        }
        let allocated = self.size(&fields, 4)?;
        let cores = if allocated > 0 { allocated } else { self.size(&fields, 7)? };
        let is_known = runtime > 0.0 && cores > 0;
        let job = is_known.then_some(Job { submitted_at, cores: cores as u64, runtime, estimate: runtime });
        Ok(Found { number: fields[0], is_part: PARTIAL.contains(&fields[STATUS]), job })
    }

    fn number(self, fields: &[&str], field: usize) -> Result<f64, Trouble> {
        let number = fields[field].parse().ok().filter(|number: &f64| !number.is_nan());
        number.ok_or_else(|| self.trouble(fields, field, "a number of seconds, or -1"))
    }

    /// Refuses a job that came much earlier or later than the first one of the file.
    fn near(self, text: &str, first_at: &mut Option<f64>, job: Option<&Job>) -> Result<(), Trouble> {
        let Some(submitted_at) = job.map(|job| job.submitted_at) else { return Ok(()) };
        let first_at = *first_at.get_or_insert(submitted_at);
        if (submitted_at - first_at).abs() <= LOG_S_MAX {
            return Ok(());
        }
        let fields: Vec<&str> = text.split_whitespace().collect();
        let expected = "a time within 946080000 seconds, which are 30 years, of that of the first job";
        Err(self.trouble(&fields, 1, expected))
    }

    fn size(self, fields: &[&str], field: usize) -> Result<i64, Trouble> {
        let size = fields[field].parse().ok().filter(|size| *size >= -1);
        size.ok_or_else(|| self.trouble(fields, field, "a whole number of processors, or -1"))
    }

    fn trouble(self, fields: &[&str], field: usize, expected: &'static str) -> Trouble {
        let (path, found) = (self.path.to_owned(), fields[field].to_owned());
        Trouble::Field { path, line: self.line, field, found, expected }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Cursor, Write},
        path::Path,
    };

    use flate2::{Compression, read::MultiGzDecoder, write::GzEncoder};

    use super::{Job, Log, Trouble, parse};

    const LOG: &str = "; Version: 2.2
; MaxJobs: 3
; MaxNodes: 64
; MaxProcs: 128 (two each)

1 0 5 100 4 -1 -1 -1 -1 -1 1 -1 -1 -1 -1 -1 -1 -1
2 7.5 0 60 -1 -1 -1 8 -1 -1 1 -1 -1 -1 -1 -1 -1 -1
3 9 0 -1 4 -1 -1 -1 -1 -1 5 -1 -1 -1 -1 -1 -1 -1
";

    fn read(text: &str) -> Result<Log, Trouble> {
        parse(Path::new("a.swf"), Cursor::new(text.to_owned()))
    }

    #[test]
    fn jobs_that_ran_are_taken() {
        let log = read(LOG).unwrap();
        let job = |submitted_at, cores, runtime| Job { submitted_at, cores, runtime, estimate: runtime };
        assert_eq!(log.workload.jobs(), [job(0.0, 4, 100.0), job(7.5, 8, 60.0)]);
        assert_eq!((log.n_skipped, log.n_cores, log.n_announced), (1, Some(128), Some(3)));
    }

    fn job(submitted_at: f64, cores: u64, runtime: f64) -> Job {
        Job { submitted_at, cores, runtime, estimate: runtime }
    }

    #[test]
    fn parts_of_a_job_are_no_jobs() {
        let part = |number: u64, at: u64, seconds: u64, status: u64| {
            format!("{number} {at} 5 {seconds} 4 -1 -1 -1 -1 -1 {status} -1 -1 -1 -1 -1 -1 -1\n")
        };
        let whole = [part(1, 0, 100, 1), part(1, 0, 40, 2), part(1, 50, 60, 3), part(2, 10, 7, 1)].concat();
        assert_eq!(read(&whole).unwrap().workload.jobs(), [job(0.0, 4, 100.0), job(10.0, 4, 7.0)]);
        let before = [part(1, 0, 40, 2), part(1, 50, 60, 4), part(1, 0, 100, 0)].concat();
        assert_eq!(read(&before).unwrap().workload.jobs(), [job(0.0, 4, 100.0)]);
        // Without a line of its own the job is the sum of its parts.
        let alone = [part(3, 20, 1, 1), part(1, 0, 40, 2), part(1, 50, 60, 3)].concat();
        let log = read(&alone).unwrap();
        assert_eq!(log.workload.jobs(), [job(0.0, 4, 100.0), job(20.0, 4, 1.0)]);
        assert_eq!(log.n_skipped, 0);
    }

    #[test]
    fn comments_may_be_in_any_encoding_and_a_mark_in_front() {
        let line = b"1 0 5 100 4 -1 -1 -1 -1 -1 1 -1 -1 -1 -1 -1 -1 -1\r\n";
        for start in [&b"; Universit\xe4t \xd8ke\n"[..], b"\xef\xbb\xbf", b"\xef\xbb\xbf; MaxProcs: 4\n"] {
            let log = parse(Path::new("a.swf"), Cursor::new([start, line].concat())).unwrap();
            assert_eq!(log.workload.jobs(), [job(0.0, 4, 100.0)]);
            assert_eq!(log.n_cores, start.ends_with(b"4\n").then_some(4));
        }
        let error = parse(Path::new("a.swf"), Cursor::new(b"\xe4 ".repeat(18))).unwrap_err();
        assert!(error.to_string().contains("field 2 (submit time)"), "{error}");
    }

    #[test]
    fn what_is_wrong_is_told_with_line_and_field() {
        let cases = [
            (
                LOG.replace("7.5 0 60", "7.5 0 x60"),
                "a.swf:7: field 4 (run time): found `x60`; write a number of seconds, or -1",
            ),
            (
                LOG.replace("2 7.5", "2 -7.5"),
                "a.swf:7: field 2 (submit time): found `-7.5`; write 0 or more seconds",
            ),
            (
                LOG.replace("0 60", "0 -60"),
                "a.swf:7: field 4 (run time): found `-60`; write 0 or more seconds, or -1",
            ),
            (
                LOG.replace("60 -1 -1 -1 8", "60 -1 -1 -1 8.5"),
                "a.swf:7: field 8 (requested number of processors): found `8.5`; write a whole number of processors, or -1",
            ),
            (
                LOG.replace("100 4", "100 -4"),
                "a.swf:6: field 5 (number of allocated processors): found `-4`; write a whole number of processors, or -1",
            ),
            (
                LOG.replace("100 4", "nan 4"),
                "a.swf:6: field 4 (run time): found `nan`; write a number of seconds, or -1",
            ),
            (
                LOG.replace("100 4", "1e20 4"),
                "a.swf:6: field 4 (run time): found `1e20`; write at most 157680000 seconds, which are 5 years",
            ),
            (
                LOG.replace("0 60", "0 9999999999"),
                "a.swf:7: field 4 (run time): found `9999999999`; write at most 157680000 seconds, which are 5 years",
            ),
            (
                LOG.replace("2 7.5", "2 1e18"),
                "a.swf:7: field 2 (submit time): found `1e18`; write at most 10000000000 seconds",
            ),
            (
                LOG.replace("2 7.5", "2 1700000000"),
                "a.swf:7: field 2 (submit time): found `1700000000`; write a time within 946080000 seconds, which are 30 years, of that of the first job",
            ),
            (
                LOG[..LOG.len() - 20].to_owned(),
                "a.swf:8: found 12 fields; a line has 18, and field 13 (group ID) is missing: is the file cut off here?",
            ),
            ("; nothing\n".to_owned(), "a.swf: found no job that ran; a log needs one at least"),
        ];
        for (text, expected) in cases {
            assert_eq!(read(&text).unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn compressed_logs_are_read_and_truncated_ones_refused() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(LOG.as_bytes()).unwrap();
        let bytes = encoder.finish().unwrap();
        let read = |bytes: &[u8]| parse(Path::new("a.swf.gz"), MultiGzDecoder::new(bytes));
        assert_eq!(read(&bytes).unwrap().workload.jobs().len(), 2);
        let error = read(&bytes[..bytes.len() / 2]).unwrap_err();
        assert!(matches!(error, Trouble::Unreadable { .. }), "{error}");
        assert!(error.to_string().ends_with("; is the file cut off here?"), "{error}");
        // The files may have any names.
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in [("packed.swf", &bytes[..]), ("plain.swf.gz", LOG.as_bytes())] {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            assert_eq!(super::read(&path).unwrap().workload.jobs().len(), 2, "{name}");
        }
        let error = super::read(folder.path()).unwrap_err();
        assert!(error.to_string().ends_with("; name a file"), "{error}");
        let missing = super::read(Path::new("no/such.swf")).unwrap_err();
        assert!(
            missing.to_string().starts_with("no/such.swf: found no file that can be opened ("),
            "{missing}"
        );
    }
}
