//! Files that a simulation writes when it is over. Whether they can be written is found out before it, and
//! whoever looks finds the file that was there before, or all of the new one.

use std::{
    ffi::OsStr,
    fs::{self, OpenOptions},
    io,
    path::{Path, PathBuf},
};

use simulator::report::{Figure, Listing};

use super::SimulateArgs;
use crate::{failure::Failure, sys::whole};

/// Where it goes.
pub(super) struct Targets {
    /// A folder for tables.
    csv: Option<PathBuf>,
    plot: Option<Plot>,
}

/// A file for a figure; its name says what it is to be.
struct Plot {
    file: PathBuf,
    is_png: bool,
}

impl Targets {
    /// Those of the command line, with tables of these names; nothing of them is there yet.
    ///
    /// # Errors
    /// One of them cannot be written, or a figure's name does not say what it is to be.
    pub(super) fn check(args: &SimulateArgs, tables: &[&str]) -> Result<Targets, Failure> {
        let plot = args.plot.as_deref().map(Plot::of).transpose()?;
        if let Some(folder) = &args.csv {
            try_folder(folder)?;
            tables.iter().try_for_each(|name| try_file(&table_file(folder, name)))?;
        }
        if let Some(plot) = &plot {
            let folder = plot.file.parent().filter(|folder| !folder.as_os_str().is_empty());
            let folder = folder.unwrap_or(Path::new("."));
            // Unlike that of tables it is not made.
            fs::metadata(folder).map_err(|error| Failure::file("write", &plot.file, &error))?;
            try_folder(folder)?;
            try_file(&plot.file)?;
        }
        Ok(Targets { csv: args.csv.clone(), plot })
    }

    /// Writes tables, each as a CSV file of its name, where they are wanted.
    ///
    /// # Errors
    /// One cannot be written.
    pub(super) fn write_tables(&self, tables: &[Listing]) -> Result<(), Failure> {
        let Some(folder) = &self.csv else { return Ok(()) };
        fs::create_dir_all(folder).map_err(|error| Failure::file("create", folder, &error))?;
        tables.iter().try_for_each(|table| write(&table_file(folder, &table.name), table.to_csv().as_bytes()))
    }

    /// Draws the figure, where it is wanted.
    ///
    /// # Errors
    /// It cannot be drawn or written.
    pub(super) fn draw(&self, figure: &Figure) -> Result<(), Failure> {
        let Some(plot) = &self.plot else { return Ok(()) };
        let bytes = match plot.is_png {
            true => figure.to_png().map_err(|error| Failure::infrastructure(error.to_string()))?,
            false => figure.to_svg().into_bytes(),
        };
        write(&plot.file, &bytes)
    }
}

impl Plot {
    fn of(file: &Path) -> Result<Plot, Failure> {
        let is_png = match file.extension().and_then(OsStr::to_str) {
            Some("svg") => false,
            Some("png") => true,
            _ => {
                let expected = "give a name that ends in .svg or .png";
                return Err(Failure::bad_input(format!("--plot: found {}; {expected}", file.display())));
            }
        };
        Ok(Plot { file: file.to_owned(), is_png })
    }
}

fn table_file(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.csv"))
}

/// Whether something can be written into a folder that is there or can be made: in its nearest one that is
/// there, where nothing stays.
fn try_folder(folder: &Path) -> Result<(), Failure> {
    let nearest = folder.ancestors().find(|folder| !folder.as_os_str().is_empty() && folder.exists());
    let nearest = nearest.unwrap_or(Path::new("."));
    let failed = |error: io::Error| Failure::file("write into", folder, &error);
    if !nearest.is_dir() {
        return Err(failed(io::ErrorKind::NotADirectory.into()));
    }
    let trial = nearest.join(format!(".pilotfish-{}.partial", std::process::id()));
    OpenOptions::new().write(true).create_new(true).open(&trial).map_err(failed)?;
    fs::remove_file(&trial).map_err(failed)
}

/// Whether what is there already may be replaced.
fn try_file(file: &Path) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::file("write", file, &error);
    match fs::metadata(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(failed(error)),
        Ok(there) if there.is_dir() => Err(failed(io::ErrorKind::IsADirectory.into())),
        // It is not changed by that; others, as pipes, would notice.
        Ok(there) if there.is_file() => OpenOptions::new().write(true).open(file).map(drop).map_err(failed),
        Ok(_) => Ok(()),
    }
}

fn write(file: &Path, bytes: &[u8]) -> Result<(), Failure> {
    whole::write(file, bytes).map_err(|error| Failure::file("write", file, &error))
}
