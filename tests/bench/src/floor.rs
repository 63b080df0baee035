//! The floor: how many `/bin/true` this machine starts and reaps a second, two in flight, from one
//! small program that does nothing else. Nothing that runs processes can be faster.

use std::{ffi::CString, ptr, time::Instant};

use crate::Trouble;

/// Processes a second.
pub fn spawns_a_second(n_spawns: u64) -> Result<f64, Trouble> {
    let program = CString::new("/bin/true")?;
    let argv = [program.as_ptr().cast_mut(), ptr::null_mut()];
    let envp = [ptr::null_mut()];
    let began = Instant::now();
    let (mut n_begun, mut n_ended) = (0, 0);
    while n_ended < n_spawns {
        while n_begun < n_spawns && n_begun - n_ended < 2 {
            let mut pid = 0;
            // SAFETY: the strings and lists live until the call returns, and the lists end with null.
            let error = unsafe {
                libc::posix_spawn(
                    &raw mut pid,
                    program.as_ptr(),
                    ptr::null(),
                    ptr::null(),
                    argv.as_ptr(),
                    envp.as_ptr(),
                )
            };
            if error != 0 {
                return Err(std::io::Error::from_raw_os_error(error).into());
            }
            n_begun += 1;
        }
        let mut status = 0;
        // SAFETY: the status is ours. No other child of this program is alive here.
        if unsafe { libc::waitpid(-1, &raw mut status, 0) } < 0 {
            return Err(std::io::Error::last_os_error().into());
        }
        n_ended += 1;
    }
    Ok(n_spawns as f64 / began.elapsed().as_secs_f64())
}
