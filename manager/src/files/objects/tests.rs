//! Objects come whole, are given as they are, and go when nobody needs them.

use std::{
    collections::BTreeSet,
    convert::Infallible,
    fs,
    time::{Duration, SystemTime},
};

use ring::digest::{Context, SHA256};
use scheduler::digest::Digest;

use crate::files::objects::{N_ASKED, ObjectError, Objects, PIECE_BYTES, USE_NOTED_AFTER};

fn digest_of(bytes: &[u8]) -> Digest {
    let mut hash = Context::new(&SHA256);
    hash.update(bytes);
    crate::files::objects::digest_of(&hash)
}

fn bring(store: &Objects, bytes: &[u8], wanted: &Digest) -> Result<u64, ObjectError> {
    let mut incoming = store.begin(bytes.len() as u64)?;
    bytes.chunks(bytes.len().div_ceil(3).max(1)).try_for_each(|chunk| incoming.write(chunk))?;
    incoming.finish(wanted)
}

#[test]
fn an_object_is_there_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let store = Objects::in_folder(folder.path());
    let sha256 = digest_of(b"molecules");
    let mut torn = store.begin(9).unwrap();
    torn.write(b"mole").unwrap();
    assert_eq!(store.size(&sha256), None);
    drop(torn);
    assert!(matches!(bring(&store, b"molecule!", &sha256), Err(ObjectError::Mismatch { .. })));
    assert_eq!(store.size(&sha256), None);
    assert_eq!(fs::read_dir(folder.path().join("files/incoming")).unwrap().count(), 0);
    for _ in 0..2 {
        assert_eq!(bring(&store, b"molecules", &sha256).unwrap(), 9);
        assert_eq!(store.size(&sha256), Some(9));
    }
}

#[test]
fn what_a_killed_manager_left_half_is_removed_and_what_was_whole_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let store = Objects::in_folder(folder.path());
    let sha256 = digest_of(b"whole");
    bring(&store, b"whole", &sha256).unwrap();
    let mut torn = store.begin(9).unwrap();
    torn.write(b"half").unwrap();
    std::mem::forget(torn);
    let next = Objects::in_folder(folder.path());
    next.clean();
    assert_eq!(fs::read_dir(folder.path().join("files/incoming")).unwrap().count(), 0);
    assert_eq!(next.size(&sha256), Some(5));
}

/// All of an object, or `None`: it is not there.
fn read(store: &Objects, sha256: &Digest) -> Option<Vec<u8>> {
    let mut object = store.open(sha256).ok()?;
    let mut bytes = Vec::new();
    loop {
        let piece = object.read().unwrap();
        if piece.is_empty() {
            return Some(bytes);
        }
        bytes.extend(piece);
    }
}

#[test]
fn a_rotten_object_is_given_once_at_most_and_can_be_brought_anew() {
    let folder = tempfile::tempdir().unwrap();
    let store = Objects::in_folder(folder.path());
    // As large as no piece, as one, as two and some.
    for n in [9, PIECE_BYTES, 2 * PIECE_BYTES + 9] {
        let right = vec![7; n];
        let sha256 = digest_of(&right);
        let flipped = [&right[..n - 1], &[6]].concat();
        for wrong in [flipped.as_slice(), &right[..n - 1], &[]] {
            bring(&store, &right, &sha256).unwrap();
            fs::write(store.path_of(&sha256), wrong).unwrap();
            let given = (!wrong.is_empty()).then(|| wrong.to_vec());
            assert!(read(&store, &sha256) == given, "who reads checks by himself");
            assert_eq!(store.size(&sha256), None, "{n} bytes");
            assert_eq!(fs::read(store.shared.rotten.join(sha256.to_string())).unwrap(), wrong);
            bring(&store, &right, &sha256).unwrap();
            assert!(read(&store, &sha256).unwrap() == right && read(&store, &sha256).unwrap() == right);
        }
    }
}

#[test]
fn a_good_object_stays_however_little_of_it_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let store = Objects::in_folder(folder.path());
    let (nothing, right) = (digest_of(b""), vec![7; 3 * PIECE_BYTES]);
    bring(&store, b"", &nothing).unwrap();
    assert_eq!(read(&store, &nothing).unwrap(), b"");
    let sha256 = digest_of(&right);
    bring(&store, &right, &sha256).unwrap();
    for n_pieces in 0..3 {
        let mut cut_off = store.open(&sha256).unwrap();
        (0..n_pieces).for_each(|_| assert_eq!(cut_off.read().unwrap().len(), PIECE_BYTES));
    }
    assert_eq!(store.size_as(&sha256, 9), Some(right.len() as u64));
    // Who has read a rotten one to its end when a good one has come judges only what he has read.
    fs::remove_file(store.path_of(&sha256)).unwrap();
    fs::write(store.path_of(&sha256), b"wrong").unwrap();
    let mut late = store.open(&sha256).unwrap();
    bring(&store, &right, &sha256).unwrap();
    assert_eq!(late.read().unwrap(), b"wrong");
    assert!(read(&store, &sha256).unwrap() == right);
    assert!(!store.shared.rotten.exists());
}

#[test]
fn an_object_of_another_size_than_it_should_have_is_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    let store = Objects::in_folder(folder.path());
    let sha256 = digest_of(b"molecules");
    bring(&store, b"molecules", &sha256).unwrap();
    fs::write(store.path_of(&sha256), b"mole").unwrap();
    assert_eq!(store.size_as(&sha256, 4), Some(4), "the size that it has is believed");
    assert_eq!(store.size_as(&sha256, 9), None);
}

#[test]
fn only_what_is_old_and_not_in_use_is_collected() {
    let folder = tempfile::tempdir().unwrap();
    let store = Objects::in_folder(folder.path());
    let [input, left, old] = [b"input".as_slice(), b"left", b"old"].map(|bytes| {
        bring(&store, bytes, &digest_of(bytes)).unwrap();
        digest_of(bytes)
    });
    let in_use = BTreeSet::from([input]);
    let mut n_asked = 0;
    let mut collect = |before| {
        let unused = |mut asked: BTreeSet<Digest>| {
            assert!(!asked.contains(&input));
            n_asked += asked.len();
            asked.remove(&left);
            Ok::<_, Infallible>(asked)
        };
        store.collect(&in_use, before, unused).unwrap()
    };
    let now = SystemTime::now();
    assert_eq!(collect(now - Duration::from_secs(60)), (0, 0));
    let file = fs::File::open(store.path_of(&left)).unwrap();
    file.set_modified(now - Duration::from_secs(120)).unwrap();
    // It is asked about once, and then not before it is old again.
    assert_eq!(collect(now - Duration::from_secs(60)), (0, 0));
    assert_eq!(collect(now - Duration::from_secs(60)), (0, 0));
    assert_eq!(collect(now + Duration::from_secs(60)), (1, 3));
    assert_eq!(n_asked, 3);
    assert_eq!([input, left, old].map(|sha256| store.size(&sha256)), [Some(5), Some(4), None]);
}

#[test]
fn nothing_is_removed_while_it_is_not_known_what_is_in_use_or_when_it_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let store = Objects::in_folder(folder.path());
    let sha256 = digest_of(b"old");
    bring(&store, b"old", &sha256).unwrap();
    let old = SystemTime::now() - Duration::from_secs(120);
    fs::File::open(store.path_of(&sha256)).unwrap().set_modified(old).unwrap();
    let before = old + Duration::from_secs(60);
    assert_eq!(store.collect(&BTreeSet::new(), before, |_| Err("no answer")), Err("no answer"));
    let asked_for = |unused: BTreeSet<Digest>| {
        store.size(&sha256);
        Ok::<_, Infallible>(unused)
    };
    assert_eq!(store.collect(&BTreeSet::new(), before, asked_for), Ok((0, 0)));
    assert_eq!(store.size(&sha256), Some(3));
}

#[test]
fn an_object_whose_use_was_not_noted_since_it_was_noted_just_before_stays_as_long() {
    let folder = tempfile::tempdir().unwrap();
    let store = Objects::in_folder(folder.path());
    let sha256 = digest_of(b"used");
    bring(&store, b"used", &sha256).unwrap();
    let now = SystemTime::now();
    let noted = now - USE_NOTED_AFTER / 2;
    fs::File::open(store.path_of(&sha256)).unwrap().set_modified(noted).unwrap();
    // It is used, and that is not noted once more.
    assert_eq!(store.size(&sha256), Some(4));
    assert_eq!(fs::metadata(store.path_of(&sha256)).unwrap().modified().unwrap(), noted);
    let unused = |asked: BTreeSet<Digest>| Ok::<_, Infallible>(asked);
    assert_eq!(store.collect(&BTreeSet::new(), now, unused).unwrap(), (0, 0));
    let unused = |asked: BTreeSet<Digest>| Ok::<_, Infallible>(asked);
    assert_eq!(store.collect(&BTreeSet::new(), now + USE_NOTED_AFTER, unused).unwrap(), (1, 4));
}

#[test]
fn use_is_asked_for_some_objects_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let store = Objects::in_folder(folder.path());
    for bytes in ["a", "b", "c", "d", "e"].map(str::as_bytes) {
        bring(&store, bytes, &digest_of(bytes)).unwrap();
    }
    let mut asked_at_a_time = Vec::new();
    let unused = |asked: BTreeSet<Digest>| {
        asked_at_a_time.push(asked.len());
        Ok::<_, Infallible>(asked)
    };
    let later = SystemTime::now() + Duration::from_secs(60);
    assert_eq!(store.collect(&BTreeSet::new(), later, unused), Ok((5, 5)));
    assert_eq!(asked_at_a_time, [N_ASKED, N_ASKED, 1]);
}

#[test]
fn more_than_the_disk_has_is_refused_before_it_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let store = Objects::in_folder(folder.path());
    assert!(matches!(store.begin(u64::MAX), Err(ObjectError::DiskFull { .. })));
}

#[test]
fn a_pack_is_taken_in_as_a_whole_and_given_without_what_is_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let store = Objects::in_folder(folder.path());
    let contents: Vec<Vec<u8>> = (0..100_u8).map(|n| vec![n; usize::from(n)]).collect();
    let mut files: Vec<(Digest, &[u8])> =
        contents.iter().map(|bytes| (digest_of(bytes), bytes.as_slice())).collect();
    let wrong = digest_of(b"wrong");
    files.push((wrong, b"right"));
    assert!(matches!(store.take_in_pack(&files), Err(ObjectError::Mismatch { .. })));
    assert_eq!(files.iter().filter(|(sha256, _)| store.size(sha256).is_some()).count(), 0);
    assert_eq!(fs::read_dir(folder.path().join("files/incoming")).unwrap().count(), 0);
    files.pop();
    // The second time all are there; one that has become shorter meanwhile is brought anew.
    for _ in 0..2 {
        store.take_in_pack(&files).unwrap();
        assert!(files.iter().all(|(sha256, contents)| store.size(sha256) == Some(contents.len() as u64)));
        fs::write(store.path_of(&files[7].0), b"").unwrap();
    }
    assert_eq!(fs::read_dir(folder.path().join("files/incoming")).unwrap().count(), 0);
    let wanted: Vec<Digest> = files.iter().map(|(sha256, _)| *sha256).chain([wrong]).collect();
    let pack = store.pack(&wanted);
    let given = protocol::files::pack::files(&pack).unwrap();
    assert_eq!(given.len(), 99, "the one that has become shorter is what it is: somebody brings it anew");
    assert!(given.iter().all(|(sha256, contents)| digest_of(contents) == *sha256));
}

#[test]
fn the_rest_of_an_object_is_given_and_not_taken_for_a_rotten_one() {
    let folder = tempfile::tempdir().unwrap();
    let store = Objects::in_folder(folder.path());
    let sha256 = digest_of(b"molecules");
    bring(&store, b"molecules", &sha256).unwrap();
    let mut rest = store.open(&sha256).unwrap().skip(4).unwrap();
    assert_eq!(rest.read().unwrap(), b"cules");
    assert_eq!(rest.read().unwrap(), b"");
    assert_eq!(store.size(&sha256), Some(9));
}
