//! The invariants of the cache, for concurrent agents that may be killed at any moment.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
    time::{Duration, SystemTime},
};

use proptest::prelude::*;
use scheduler::digest::Digest;

use super::{Cache, CachePlace, FetchLock, FileTimes, hash_of, mark, remove_dead_caches};

fn cache(folder: &Path, bytes_max: u64) -> Cache {
    Cache::open(&CachePlace::new(folder.to_owned(), Some(bytes_max))).unwrap()
}

/// Adds these bytes and returns their digest.
fn bring(cache: &Cache, bytes: &[u8]) -> Digest {
    let mut part = cache.begin(bytes.len() as u64).unwrap();
    part.write(bytes).unwrap();
    cache.finish(part, None).unwrap().unwrap().0
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    entries.map(|name| name.into_string().unwrap()).collect()
}

/// Sets the last use of an object to `seconds` ago.
fn age(folder: &Path, sha256: &Digest, seconds: u64) {
    let file = fs::File::open(folder.join("objects").join(sha256.to_string())).unwrap();
    let at = SystemTime::now() - Duration::from_secs(seconds);
    file.set_times(FileTimes::new().set_accessed(at).set_modified(mark())).unwrap();
}

#[test]
fn an_object_is_here_whole_or_not_at_all_and_nobody_can_write_it() {
    let folder = tempfile::tempdir().unwrap();
    let cache = cache(folder.path(), 1000);
    let mut part = cache.begin(9).unwrap();
    part.write(b"mole").unwrap();
    drop(part);
    let mut part = cache.begin(9).unwrap();
    part.write(b"molecule!").unwrap();
    let wanted = Digest([7; 32]);
    assert!(cache.finish(part, Some(&wanted)).unwrap().is_err());
    assert!(names(&folder.path().join("objects")).is_empty());
    let sha256 = bring(&cache, b"molecules");
    let pin = cache.pin(&sha256).unwrap().unwrap();
    assert_eq!(fs::read(&pin.path).unwrap(), b"molecules");
    assert_eq!(fs::metadata(&pin.path).unwrap().permissions().mode() & 0o777, 0o500);
    assert_eq!(cache.pin(&wanted).unwrap(), None);
}

#[test]
fn threads_that_make_room_at_a_time_do_not_wait_for_each_other_for_ever() {
    const N_ROUNDS: usize = 2000;
    let folder = tempfile::tempdir().unwrap();
    let cache = cache(folder.path(), 100);
    let sha256 = bring(&cache, &[0; 80]);
    let _pin = cache.pin(&sha256).unwrap().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| (0..N_ROUNDS).for_each(|_| cache.drop_unused()));
        for _ in 0..N_ROUNDS {
            // Forces a count, so that room is made in each round.
            cache.state().is_stuck = false;
            cache.make_room(80);
        }
    });
    assert!(cache.has(&sha256));
}

#[test]
fn what_a_task_has_left_stays_where_it_was_made_and_is_looked_at_before_it_is_used() {
    let folder = tempfile::tempdir().unwrap();
    let cache = cache(&folder.path().join("cache"), 100);
    let left = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        let sha256 = hash_of(&fs::File::open(&path).unwrap()).unwrap().0;
        (path, sha256)
    };
    let (path, poses) = left("poses", b"poses");
    assert!(cache.adopt(&path, 5, &poses).unwrap());
    fs::remove_file(&path).unwrap();
    let pin = cache.pin(&poses).unwrap().unwrap();
    assert_eq!(fs::read(&pin.path).unwrap(), b"poses");
    assert_eq!(fs::metadata(&pin.path).unwrap().permissions().mode() & 0o777, 0o500);
    // An object that is already here is not replaced, even by a changed file.
    let (again, _) = left("again", b"other");
    assert!(cache.adopt(&again, 5, &poses).unwrap());
    assert_eq!(fs::read(&cache.pin(&poses).unwrap().unwrap().path).unwrap(), b"poses");
    // The file has changed since it was hashed.
    let (changed, scores) = left("changed", b"scores");
    fs::write(&changed, b"s").unwrap();
    assert!(cache.adopt(&changed, 6, &scores).unwrap());
    assert_eq!(cache.pin(&scores).unwrap(), None);
    // The file has another name; it is not a regular file; it is too large.
    let (shared, sha256) = left("shared", b"shared");
    fs::hard_link(&shared, folder.path().join("more")).unwrap();
    assert!(!cache.adopt(&shared, 6, &sha256).unwrap());
    assert_ne!(fs::metadata(&shared).unwrap().permissions().mode() & 0o200, 0);
    std::os::unix::fs::symlink(&shared, folder.path().join("link")).unwrap();
    assert!(!cache.adopt(&folder.path().join("link"), 6, &sha256).unwrap());
    let (large, sha256) = left("large", &[1; 101]);
    assert!(!cache.adopt(&large, 101, &sha256).unwrap());
    assert_eq!(names(&folder.path().join("cache/users")).len(), 1);
}

#[test]
fn the_longest_unused_goes_first_and_nothing_that_is_used() {
    let folder = tempfile::tempdir().unwrap();
    let cache = cache(folder.path(), 100);
    let [old, older, oldest] = [b'a', b'b', b'c'].map(|letter| bring(&cache, &[letter; 30]));
    for (sha256, seconds) in [(&old, 10), (&older, 20), (&oldest, 30)] {
        age(folder.path(), sha256, seconds);
    }
    let pin = cache.pin(&oldest).unwrap().unwrap();
    age(folder.path(), &oldest, 30);
    let new = bring(&cache, &[b'd'; 30]);
    let is_here = |sha256: &Digest| folder.path().join("objects").join(sha256.to_string()).exists();
    assert_eq!([new, old, older, oldest].map(|sha256| is_here(&sha256)), [true, true, false, true]);
    assert_eq!(fs::read(&pin.path).unwrap(), [b'c'; 30]);
    cache.unpin(&oldest);
    age(folder.path(), &oldest, 30);
    bring(&cache, &[b'e'; 30]);
    assert!(!is_here(&oldest));
}

#[test]
fn what_was_not_expected_to_be_large_makes_room_when_it_has_come() {
    let folder = tempfile::tempdir().unwrap();
    let cache = cache(folder.path(), 100);
    let [_, second] = [b'a', b'b'].map(|letter| {
        let mut part = cache.begin(0).unwrap();
        part.write(&[letter; 60]).unwrap();
        cache.finish(part, None).unwrap().unwrap().0
    });
    assert_eq!(names(&folder.path().join("objects")), [second.to_string()]);
}

#[test]
fn what_is_used_stays_even_if_it_is_more_than_the_bound() {
    let folder = tempfile::tempdir().unwrap();
    let cache = cache(folder.path(), 50);
    let pinned: Vec<Digest> = [b'a', b'b', b'c'].map(|letter| bring(&cache, &[letter; 30])).to_vec();
    let first = cache.pin(&pinned[2]).unwrap().unwrap();
    cache.drop_unused();
    assert_eq!(names(&folder.path().join("objects")), [first.sha256.to_string()]);
}

#[test]
fn what_was_written_to_or_rotted_is_found_out_and_never_given_to_a_task() {
    let folder = tempfile::tempdir().unwrap();
    let first = cache(folder.path(), 1000);
    let sha256 = bring(&first, b"molecules");
    let object = folder.path().join("objects").join(sha256.to_string());
    let spoil = |is_marked: bool| {
        fs::set_permissions(&object, fs::Permissions::from_mode(0o700)).unwrap();
        fs::write(&object, b"molecular").unwrap();
        if is_marked {
            age(folder.path(), &sha256, 1);
        }
    };
    spoil(false);
    assert_eq!(first.pin(&sha256).unwrap(), None);
    assert!(!object.exists());
    bring(&first, b"molecules");
    // A failing disk does not change the time; the first use of an agent reads the object.
    spoil(true);
    let second = cache(folder.path(), 1000);
    assert_eq!(second.pin(&sha256).unwrap(), None);
    bring(&second, b"molecules");
    assert!(second.pin(&sha256).unwrap().is_some());
}

#[test]
fn what_one_agent_finds_spoilt_no_other_takes_for_read() {
    let folder = tempfile::tempdir().unwrap();
    let [first, second] = [cache(folder.path(), 1000), cache(folder.path(), 1000)];
    let sha256 = bring(&first, b"molecules");
    let pins = [&first, &second].map(|cache| cache.pin(&sha256).unwrap().unwrap());
    fs::set_permissions(&pins[0].path, fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(&pins[0].path, b"molecular").unwrap();
    assert_eq!([first.pin(&sha256).unwrap(), second.pin(&sha256).unwrap()], [None, None]);
}

#[test]
fn a_use_that_is_still_going_on_keeps_its_file_when_the_object_is_found_bad() {
    let folder = tempfile::tempdir().unwrap();
    let cache = cache(folder.path(), 1000);
    let sha256 = bring(&cache, b"molecules");
    cache.pin(&sha256).unwrap().unwrap();
    let object = folder.path().join("objects").join(sha256.to_string());
    fs::remove_file(&object).unwrap();
    let again = cache.pin(&sha256).unwrap().unwrap();
    assert_eq!(hash_of(&fs::File::open(&again.path).unwrap()).unwrap().0, sha256);
    cache.unpin(&sha256);
    assert!(again.path.exists());
    cache.unpin(&sha256);
    assert!(!again.path.exists());
}

#[test]
fn what_a_killed_agent_left_is_removed_and_what_a_living_one_has_stays() {
    let folder = tempfile::tempdir().unwrap();
    let living = cache(folder.path(), 1000);
    let sha256 = bring(&living, b"molecules");
    living.pin(&sha256).unwrap().unwrap();
    // Its process has ended, and its lock is free.
    let dead = folder.path().join("users/4194305-0");
    fs::create_dir_all(dead.join("pins")).unwrap();
    for name in ["alive", "part-3", "pins/x"] {
        fs::write(dead.join(name), "torn").unwrap();
    }
    let next = cache(folder.path(), 1000);
    assert!(!dead.exists());
    assert_eq!(names(&folder.path().join("users")).len(), 2);
    next.drop_unused();
    assert!(next.pin(&sha256).unwrap().is_some());
    // An agent that ended later is found when room is made, and its objects are evicted.
    let other = bring(&next, b"atoms");
    let late = folder.path().join("users/4194305-1");
    fs::create_dir_all(late.join("pins")).unwrap();
    fs::write(late.join("alive"), "").unwrap();
    let object = folder.path().join("objects").join(other.to_string());
    fs::hard_link(&object, late.join("pins").join(other.to_string())).unwrap();
    next.drop_unused();
    assert!(!late.exists() && !object.exists());
    drop(living);
    drop(next);
    assert!(names(&folder.path().join("users")).is_empty());
}

#[test]
fn one_agent_at_a_time_fetches_an_object() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (cache(folder.path(), 1000), cache(folder.path(), 1000));
    let key = Digest([9; 32]);
    let lock = first.try_lock(&key).unwrap();
    assert!(lock.is_some() && second.try_lock(&key).unwrap().is_none());
    let life = second.life_of(&key);
    assert_eq!(second.life_of(&key), life);
    lock.iter().for_each(FetchLock::show_life);
    assert_ne!(second.life_of(&key), life);
    drop(lock);
    assert!(second.try_lock(&key).unwrap().is_some());
}

#[test]
fn what_an_address_held_is_remembered() {
    let folder = tempfile::tempdir().unwrap();
    let cache = cache(folder.path(), 1000);
    let (key, sha256) = (Digest([1; 32]), Digest([2; 32]));
    assert_eq!(cache.known_at(&key), None);
    cache.note_at(&key, &sha256);
    assert_eq!(cache.known_at(&key), Some(sha256));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Two agents with one folder add, pin and unpin in any order: pinned objects can be read and are right,
    /// and all others stay within the size limit.
    #[test]
    fn in_any_order_pins_are_good_and_the_rest_is_bounded(
        events in prop::collection::vec((0..3_u8, any::<bool>(), 0..12_u8), 1..80),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let agents = [cache(folder.path(), 200), cache(folder.path(), 200)];
        let contents = |n: u8| vec![n; 10 + usize::from(n) * 5];
        let digest = |n: u8| crate::sys::sha256::of(&contents(n));
        let mut pins: [Vec<(u8, super::Pin)>; 2] = [vec![], vec![]];
        for (what, second, n) in events {
            let (agent, pins) = (&agents[usize::from(second)], &mut pins[usize::from(second)]);
            match what {
                0 => prop_assert_eq!(bring(agent, &contents(n)), digest(n)),
                1 => pins.extend(agent.pin(&digest(n)).unwrap().map(|pin| (n, pin))),
                _ => {
                    if let Some((n, _)) = pins.pop() {
                        agent.unpin(&digest(n));
                    }
                }
            }
            for (n, pin) in pins.iter() {
                prop_assert_eq!(fs::read(&pin.path).unwrap(), contents(*n));
            }
        }
        let held: u64 = pins.iter().flatten().map(|(n, _)| contents(*n).len() as u64).sum();
        agents[0].state().n_counted = None;
        bring(&agents[0], &contents(0));
        let all = names(&folder.path().join("objects"));
        let size = |name: &String| fs::metadata(folder.path().join("objects").join(name)).unwrap().len();
        prop_assert!(all.iter().map(size).sum::<u64>() <= 200 + held);
    }
}

/// Returns the number of looks at objects while `n` are added, one by one or in packs.
fn n_looks(n: u32, bytes_max: u64, is_kept: bool, is_packed: bool) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let cache = cache(folder.path(), bytes_max);
    for n in 0..n {
        let bytes = n.to_le_bytes();
        let sha256 = match is_packed {
            true => {
                cache.make_room(4);
                let sha256 = crate::sys::sha256::of(&bytes);
                assert!(cache.take_in(&bytes, &sha256).unwrap());
                sha256
            }
            false => bring(&cache, &bytes),
        };
        if is_kept {
            cache.pin(&sha256).unwrap().unwrap();
        }
    }
    cache.state().n_looks
}

#[test]
fn what_counting_costs_grows_as_the_number_of_objects_does_and_not_with_its_square() {
    // A cache with room, a full one, and one whose objects are all in use.
    for (bytes_max, is_kept) in [(1 << 20, false), (1000, false), (1000, true)] {
        for is_packed in [false, true] {
            let (some, many) =
                (n_looks(500, bytes_max, is_kept, is_packed), n_looks(4000, bytes_max, is_kept, is_packed));
            assert!(many <= 20 * some.max(500), "8 times as many cost {many} looks, and not some {some}");
            assert!(many <= 32 * 4000, "{many} looks for 4000 objects of a cache of {bytes_max} bytes");
        }
    }
}

/// Files of packs are written under their final names.
#[test]
fn a_file_of_a_pack_that_a_killed_agent_has_half_written_is_never_given_and_comes_anew() {
    let folder = tempfile::tempdir().unwrap();
    let cache = cache(folder.path(), 1000);
    let (half, other) = (crate::sys::sha256::of(b"molecules"), crate::sys::sha256::of(b"atoms"));
    for sha256 in [half, other] {
        fs::write(folder.path().join("objects").join(sha256.to_string()), b"mole").unwrap();
    }
    let put = |_: &Path| panic!("it is not whole");
    assert!(!cache.give(&half, put).unwrap());
    assert!(cache.take_in(b"molecules", &half).unwrap());
    let given = folder.path().join("given");
    assert!(cache.give(&half, |object| fs::hard_link(object, &given)).unwrap());
    assert_eq!(fs::read(&given).unwrap(), b"molecules");
    // A pilot that only looks for the object also finds it incomplete.
    assert_eq!(cache.pin(&other).unwrap(), None);
    assert!(!cache.has(&other));
}

#[test]
fn a_file_of_a_pack_is_taken_in_if_it_is_right_and_given_under_its_name_there_alone() {
    let folder = tempfile::tempdir().unwrap();
    let cache = cache(&folder.path().join("cache"), 1000);
    let sha256 = crate::sys::sha256::of(b"molecules");
    assert!(!cache.take_in(b"molecule!", &sha256).unwrap());
    let target = folder.path().join("task");
    let give = || cache.give(&sha256, |object| fs::hard_link(object, &target));
    assert!(!give().unwrap(), "it is not there");
    assert!(cache.take_in(b"molecules", &sha256).unwrap());
    assert!(give().unwrap());
    let facts = fs::metadata(&target).unwrap();
    assert_eq!((facts.nlink(), facts.permissions().mode() & 0o777), (2, 0o500));
    assert!(give().is_err(), "something is there");
    // An object in a task's folder is not evicted; one that was written to is not given.
    cache.drop_unused();
    assert!(cache.has(&sha256));
    fs::remove_file(&target).unwrap();
    let object = folder.path().join("cache/objects").join(sha256.to_string());
    fs::set_permissions(&object, fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(&object, b"spoilt").unwrap();
    assert!(!give().unwrap());
    cache.drop_unused();
    assert!(!cache.has(&sha256));
}

/// Returns a folder on another file system than that of temporary files, if there is one.
fn elsewhere(here: &Path) -> Option<tempfile::TempDir> {
    use std::os::unix::fs::MetadataExt;
    let other = tempfile::tempdir_in("/dev/shm").ok()?;
    let device = |path: &Path| fs::metadata(path).unwrap().dev();
    (device(other.path()) != device(here)).then_some(other)
}

#[test]
fn what_does_not_fit_goes_to_another_file_system_and_goes_with_the_pilot() {
    let folder = tempfile::tempdir().unwrap();
    let Some(other) = elsewhere(folder.path()) else { return };
    let overflow = other.path().join("pilot/overflow");
    let place = CachePlace {
        overflow: Some(overflow.clone()),
        ..CachePlace::new(folder.path().join("cache"), Some(1000))
    };
    let cache = Cache::open(&place).unwrap();
    let first = bring(&cache, b"first");
    let _in_use = cache.pin(&first).unwrap().unwrap();
    assert_eq!(
        [0, 1, 1, 2].map(|n| cache.find_room(n)),
        [true, true, true, false],
        "for several that find it full"
    );
    let second = bring(&cache, b"second");
    let third = crate::sys::sha256::of(b"third");
    assert!(cache.take_in(b"third", &third).unwrap());
    let there = BTreeSet::from_iter(names(&overflow.join("objects")));
    assert_eq!(there, [second, third].map(|sha256| sha256.to_string()).into());
    let target = other.path().join("target");
    assert!(cache.give(&third, |object| fs::hard_link(object, &target)).unwrap() && target.exists());
    assert!(cache.has(&first) && cache.has(&second) && cache.is_verified(&second));
    cache.unpin(&first);
    for sha256 in [&first, &second] {
        let pin = cache.pin(sha256).unwrap().unwrap();
        assert!(pin.path.starts_with(&overflow) == (*sha256 == second));
        cache.unpin(sha256);
        assert!(!pin.path.exists());
    }
    let key = Digest([9; 32]);
    cache.note_missing(&key, "404");
    assert_eq!(cache.missing_at(&key, Duration::from_secs(300)).as_deref(), Some("404"));
    drop(cache);
    assert!(!overflow.exists() && place.folder.join("objects").exists());
}

#[test]
fn on_the_same_disk_there_is_no_more_room() {
    let folder = tempfile::tempdir().unwrap();
    let overflow = Some(folder.path().join("pilot/overflow"));
    let cache =
        Cache::open(&CachePlace { overflow, ..CachePlace::new(folder.path().join("cache"), None) }).unwrap();
    assert_eq!([0, 1].map(|n| cache.find_room(n)), [true, false]);
}

#[test]
fn a_pilots_own_cache_goes_with_it_and_those_of_killed_pilots_with_the_next_one() {
    let folder = tempfile::tempdir().unwrap();
    let template = folder.path().join("pf-{tag}/cache").display().to_string();
    let own = |tag: &str| {
        let path = template.replace("{tag}", tag);
        let own = Some(folder.path().join(format!("pf-{tag}")));
        CachePlace { own, ..CachePlace::new(path.into(), Some(1000)) }
    };
    let living = Cache::open(&own("pf1-1")).unwrap();
    let killed = Cache::open(&own("pf1-2")).unwrap();
    let stranger = Cache::open(&own("pf2-2")).unwrap();
    bring(&killed, b"left");
    // Gives their processes another start time, as if they had ended.
    for cache in [&killed, &stranger] {
        let alive = cache.own.join("alive");
        let keeper = fs::read_to_string(&alive).unwrap();
        let (before, start) = keeper.rsplit_once(':').unwrap();
        fs::write(&alive, format!("{before}:{}", start.parse::<u64>().unwrap() + 1)).unwrap();
    }
    remove_dead_caches(&template, "pf1-3");
    let is_there = |tag: &str| own(tag).folder.exists();
    assert_eq!(["pf1-1", "pf1-2", "pf2-2"].map(is_there), [true, false, true]);
    assert!(!folder.path().join("pf-pf1-2").exists(), "with the folder above it");
    drop(living);
    assert!(!folder.path().join("pf-pf1-1").exists());
}
