//! A folder of 100,000 small files as the input of one task, and the same folder as the output of one, by a manager of this
//! host and its real agent: against `cp -r` of that folder in the same run. All of it is in the page cache.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant, SystemTime},
};

use crate::{
    Trouble,
    figure::{Figure, Goal},
    place::{Folder, Place, program},
};

use super::process::warm_up;

pub const LINE: &str = "small-files";

const N_FOLDERS: usize = 100;
const N_FILES: usize = 1_000;
const N_BYTES: usize = 100;

const THERE: &str = "\
name: there
command: touch $BENCH/started && test $(find data -type f | wc -l) = 100000
env_from: [BENCH]
inputs: [data/]
";

const HOME: &str = "\
name: home
command: cp -rl $BENCH/data res && touch $BENCH/made
env_from: [BENCH]
outputs: [{from: res/, to: res}]
";

pub async fn measure() -> Result<Vec<Figure>, Trouble> {
    let place = Place::real()?;
    let mut api = place.api()?;
    warm_up(&mut api).await?;
    let folder = Folder::new()?;
    make(&folder.path().join("data"))?;
    let before = copy(folder.path(), "copy1")?;

    let began = SystemTime::now();
    submit(&place, folder.path(), THERE)?;
    let there = seconds(began, at(&folder.path().join("started"))?)?;

    submit(&place, folder.path(), HOME)?;
    let home = seconds(at(&folder.path().join("made"))?, SystemTime::now())?;
    let came = count(&folder.path().join("res"))?;
    if came != N_FOLDERS * N_FILES {
        return Err(format!("{came} files came home").into());
    }
    let after = copy(folder.path(), "copy2")?;

    let copied = f64::midpoint(before, after);
    let figure = |name: &str, value, unit, goal| Figure::new(LINE, name, value, unit, goal);
    Ok(vec![
        figure("cp -r of 100,000 files of 100 bytes, mean of before and after", copied, "s", Goal::None),
        figure("from submit to the start of the task that needs them", there, "s", Goal::None),
        figure("speed there / that of cp -r", copied / there, "", Goal::AtLeast(0.5)),
        figure("from the end of the task that left them to files at home", home, "s", Goal::None),
        figure("speed home / that of cp -r", copied / home, "", Goal::AtLeast(0.5)),
    ])
}

/// Each file holds something else.
fn make(folder: &Path) -> Result<(), Trouble> {
    for above in 0..N_FOLDERS {
        let folder = folder.join(format!("d{above:02}"));
        fs::create_dir_all(&folder)?;
        for n in 0..N_FILES {
            let text = format!("{above} {n} ");
            fs::write(folder.join(format!("f{n:03}")), format!("{text:x<N_BYTES$}"))?;
        }
    }
    Ok(())
}

/// Seconds that `cp -r` takes. The copy stays until all is measured: for half a minute ext4 does not use the inodes of
/// removed files again, and looks at each of them before it makes a file.
fn copy(folder: &Path, to: &str) -> Result<f64, Trouble> {
    let began = Instant::now();
    let status = Command::new("cp").args(["-r", "data", to]).current_dir(folder).status()?;
    let took = began.elapsed().as_secs_f64();
    if status.success() { Ok(took) } else { Err("cp -r failed".into()) }
}

/// Submits a job and waits until it is over and its files are at home.
fn submit(place: &Place, folder: &Path, job: &str) -> Result<(), Trouble> {
    fs::write(folder.join("job.yaml"), job)?;
    let mut command = Command::new(program()?);
    command.args(["submit", "job.yaml", "--wait", "--quiet", "--dir"]).arg(place.folder.path());
    let status = command.current_dir(folder).env("BENCH", folder).stdout(Stdio::null()).status()?;
    if status.success() { Ok(()) } else { Err(format!("the job did not succeed:\n{job}").into()) }
}

fn at(marker: &Path) -> Result<SystemTime, Trouble> {
    Ok(fs::metadata(marker)?.modified()?)
}

fn seconds(from: SystemTime, to: SystemTime) -> Result<f64, Trouble> {
    Ok(to.duration_since(from).map(|took: Duration| took.as_secs_f64())?)
}

fn count(folder: &Path) -> Result<usize, Trouble> {
    let mut n_files = 0;
    for above in fs::read_dir(folder)? {
        n_files += fs::read_dir(above?.path())?.count();
    }
    Ok(n_files)
}
