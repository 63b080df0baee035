//! Disks that get full or break. Only root can mount them.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use nix::sched::{CloneFlags, unshare};

use crate::{Sandbox, text, until};

/// A file system of its own, gone when it goes out of scope.
pub struct Disk {
    path: PathBuf,
    /// Where its bytes are, unless they are in memory.
    image: Option<PathBuf>,
}

impl Disk {
    /// One in memory on this folder of the sandbox; `None`, with the reason printed, where that is not
    /// allowed. `options`: those of tmpfs, its size among them.
    pub fn mount(sandbox: &Sandbox, name: &str, options: &str) -> Option<Disk> {
        let disk = Disk { path: folder(sandbox, name), image: None };
        let mount = keep_mounts_here().and_then(|()| {
            Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(&disk.path).output()
        });
        disk.unless_refused(mount)
    }

    /// One with a journal, in a file, that the kernel makes read-only at the first error.
    pub fn mount_breakable(sandbox: &Sandbox, name: &str) -> Option<Disk> {
        let image = sandbox.path().join("image");
        File::create(&image).and_then(|file| file.set_len(64 << 20)).expect("an empty disk");
        let made = Command::new("mkfs.ext4").arg("-q").arg(&image).output();
        let disk = Disk { path: folder(sandbox, name), image: Some(image) }.unless_refused(made)?;
        let mounted = keep_mounts_here().and_then(|()| disk.attach());
        disk.unless_refused(mounted)
    }

    /// A folder of the sandbox under a second name.
    pub fn bind(sandbox: &Sandbox, from: &str, name: &str) -> Option<Disk> {
        let disk = Disk { path: folder(sandbox, name), image: None };
        let from = sandbox.path().join(from);
        let mount = keep_mounts_here()
            .and_then(|()| Command::new("mount").arg("--bind").args([&from, &disk.path]).output());
        disk.unless_refused(mount)
    }

    fn unless_refused(self, result: io::Result<Output>) -> Option<Disk> {
        let why = match result {
            Ok(output) if output.status.success() => return Some(self),
            Ok(output) => text(&output.stderr),
            Err(error) => error.to_string(),
        };
        crate::skipped(&format!("no disk can be mounted here: {}", why.trim()));
        None
    }

    fn attach(&self) -> io::Result<Output> {
        let image = self.image.as_ref().expect("a disk in a file");
        Command::new("mount").args(["-o", "loop,errors=remount-ro"]).args([image, &self.path]).output()
    }

    /// The folder it is mounted on.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves no page free.
    pub fn fill(&self) {
        let mut file = File::create(self.path.join("filler")).expect("a name takes no room");
        while file.write_all(&[0; 4096]).is_ok() {}
    }

    /// Undoes that.
    pub fn make_room(&self) {
        fs::remove_file(self.path.join("filler")).expect("it was full");
    }

    /// An error, as the kernel sees it: nothing can be written any more, however it was opened.
    pub fn break_down(&self) {
        let found = Command::new("findmnt").args(["-no", "SOURCE"]).arg(&self.path).output();
        let device = text(&found.expect("findmnt runs").stdout).trim().replace("/dev/", "");
        fs::write(format!("/sys/fs/ext4/{device}/trigger_fs_error"), "1").expect("it has an error");
    }

    /// Repairs it, as one does after an error: nobody may have a file open there.
    pub fn repair(&self) {
        until("nobody uses the disk", || unmount(&self.path, &[]));
        let image = self.image.as_ref().expect("a disk in a file");
        let checked = Command::new("e2fsck").arg("-fy").arg(image).output().expect("e2fsck runs");
        assert!(checked.status.code().is_some_and(|code| code < 4), "{}", text(&checked.stdout));
        assert!(self.attach().expect("mount runs").status.success(), "it can be mounted again");
    }

    /// Mounts it anew with this option.
    pub fn change(&self, option: &str) {
        let option = format!("remount,{option}");
        // A process on its way out may still have a file open.
        let has_changed = || {
            let output = Command::new("mount").args(["-o", &option]).arg(&self.path).output();
            output.expect("mount runs").status.success()
        };
        until("the disk can be changed", has_changed);
    }
}

/// From now on mounts of this thread, and of all that it starts, are seen by nobody else, and end with
/// them, however that is.
fn keep_mounts_here() -> io::Result<()> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    Command::new("mount").args(["--make-rprivate", "/"]).status().map(|_| ())
}

fn folder(sandbox: &Sandbox, name: &str) -> PathBuf {
    let path = sandbox.path().join(name);
    fs::create_dir_all(&path).expect("a folder to mount on");
    path
}

/// Takes a mount away; whether it could be.
fn unmount(path: &Path, options: &[&str]) -> bool {
    let status = Command::new("umount").args(options).arg(path).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

impl Drop for Disk {
    fn drop(&mut self) {
        // What still has a file open there is ended by its sandbox.
        unmount(&self.path, &["-l"]);
    }
}
