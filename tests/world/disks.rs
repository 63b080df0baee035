//! Disks that get full or break in the middle of a sweep, under the manager's store and under pilots.

use nix::sys::signal::Signal;
use tests::{disk::Disk, pilots::signal_all, site::Site, sweep::Audit};

const N_TASKS: u64 = 4_000;
const TWO_PILOTS: &str =
    "platforms: [{name: here, adapter: local, cores: 1, pilots_max: 2, poll_interval: 1s}]\n";

/// A manager on `disk/state` whose pilots keep their files elsewhere, in `pilots`.
fn site_with_pilots_elsewhere() -> Site {
    let site = Site::new("disk/state", N_TASKS, TWO_PILOTS);
    std::fs::create_dir(site.sandbox.path().join("pilots")).expect("a folder for pilots");
    site
}

/// Makes the manager's folder, and in it one of pilots that leads out of the disk.
fn lead_pilots_out(site: &Site) {
    let state = site.sandbox.path().join("disk/state");
    std::fs::create_dir(&state).expect("the manager's folder");
    std::os::unix::fs::symlink(site.sandbox.path().join("pilots"), state.join("pilots")).expect("a way out");
}

/// The manager has ended because its store cannot be written, and says so.
fn ends_for(site: &mut Site, why: &str) {
    let (code, said) = site.manager_ends();
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains(why) && !said.contains("panicked"), "{said}");
}

fn repeats_nothing(site: &mut Site) {
    let (Audit { n_again, .. }, _) = site.close(&[]);
    assert_eq!(n_again, 0, "the manager's end alone repeats nothing");
}

#[test]
fn a_store_whose_disk_gets_full_loses_nothing() {
    let mut site = Site::new("disk/state", N_TASKS, TWO_PILOTS);
    let Some(disk) = Disk::mount(&site.sandbox, "disk", "size=16m") else { return };
    site.serve();
    site.submit(1);
    for part in 1..=2 {
        site.until_executed(part * N_TASKS / 4);
        disk.fill();
        ends_for(&mut site, "make room and start again");
        disk.make_room();
        site.serve();
    }
    repeats_nothing(&mut site);
}

#[test]
fn a_store_whose_disk_breaks_loses_nothing() {
    let mut site = site_with_pilots_elsewhere();
    let Some(disk) = Disk::mount_breakable(&site.sandbox, "disk") else { return };
    lead_pilots_out(&site);
    site.serve();
    site.submit(2);
    site.until_executed(N_TASKS / 3);
    // What was flushed while the error came was seen lost although the flush had been called done: none comes.
    let manager = [site.manager_pid()];
    signal_all(&manager, Signal::SIGSTOP);
    disk.break_down();
    signal_all(&manager, Signal::SIGCONT);
    ends_for(&mut site, "disk/state/store.sqlite");
    disk.repair();
    site.serve();
    repeats_nothing(&mut site);
}

/// Pilots whose folder cannot be written any more keep their results until the manager is back.
fn pilots_keep_their_results(disk: impl FnOnce(&Site) -> Option<Disk>, spoil: impl FnOnce(&Disk)) {
    let mut site = Site::new("state", N_TASKS, TWO_PILOTS);
    let Some(disk) = disk(&site) else { return };
    site.serve();
    site.submit(3);
    site.until_executed(N_TASKS / 3);
    spoil(&disk);
    site.kill_manager();
    // What they held is executed; nobody takes the results.
    site.trace.waits(N_TASKS, std::time::Duration::from_millis(500));
    site.serve();
    repeats_nothing(&mut site);
}

#[test]
fn pilots_whose_disk_is_full_keep_their_results() {
    pilots_keep_their_results(|site| Disk::mount(&site.sandbox, "state/pilots", "size=4m"), Disk::fill);
}

#[test]
fn pilots_whose_disk_breaks_keep_their_results() {
    pilots_keep_their_results(|site| Disk::mount_breakable(&site.sandbox, "state/pilots"), Disk::break_down);
}

#[test]
fn tasks_wait_for_room_for_their_folders() {
    let mut site = Site::new("state", N_TASKS, TWO_PILOTS);
    let Some(disk) = Disk::mount(&site.sandbox, "state/pilots", "size=4m,nr_inodes=200") else { return };
    let job = site.sandbox.read("job.yaml");
    site.sandbox.write("job.yaml", &format!("{job}workdir: scratch\n"));
    site.serve();
    site.submit(4);
    site.until_executed(N_TASKS / 4);
    // A folder in memory takes no page, but a name.
    let fillers: Vec<_> = (0..)
        .map(|n| disk.path().join(format!("filler-{n}")))
        .take_while(|path| std::fs::write(path, "").is_ok())
        .collect();
    let api = site.api.clone();
    site.trace.until("some tasks have found no room", || {
        api.get("/jobs/1").is_some_and(|job| job["n_failed_attempts"].as_u64() > Some(0))
    });
    fillers.iter().for_each(|path| std::fs::remove_file(path).expect("it is there"));
    repeats_nothing(&mut site);
}
