//! Stores that are opened or refused, and the words of refusals.

use std::{
    cell::Cell,
    collections::BTreeSet,
    fs,
    os::unix::{
        fs::{PermissionsExt, symlink},
        process::CommandExt,
    },
    path::Path,
};

use rusqlite::Connection;
use scheduler::{
    engine::{interface::settings::Settings, record::Record},
    ids::JobId,
    policy::Policies,
    time::{Span, Time},
};

use super::{
    super::{FILE, Store, StoreError, schema},
    CHILD_FOLDER, child, open,
    records::beginning,
    replayed,
};
use crate::{config::Config, start::settings};

fn refusal(folder: &Path) -> String {
    Store::open(folder).unwrap_err().to_string().replace(&folder.display().to_string(), "FOLDER")
}

#[test]
fn a_missing_folder_is_created_for_its_owner_only() {
    let base = tempfile::tempdir().unwrap();
    let folder = base.path().join("a/b");
    let mut store = open(&folder);
    store.commit(&beginning(9)).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    let mut files: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let names: Vec<_> = files.iter().map(|file| file.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(
        names,
        [".gitignore", "acknowledged", "lock", "store.sqlite", "store.sqlite-shm", "store.sqlite-wal"]
    );
    assert!(files.iter().all(|file| mode(file) == 0o600));
}

/// SQLite itself would only say that it cannot open the file.
#[test]
fn a_path_that_is_too_long_is_told_and_the_longest_one_works() {
    let base = tempfile::tempdir().unwrap();
    let base = base.path().canonicalize().unwrap();
    let folder = |n_bytes: usize| {
        let mut folder = base.clone();
        loop {
            // With the slashes before it and before the file's name.
            let n_left = n_bytes - folder.as_os_str().len() - 2 - FILE.len();
            if n_left <= 200 {
                return folder.join("d".repeat(n_left));
            }
            folder.push("d".repeat(100));
        }
    };
    open(&folder(504)).commit(&beginning(9)).unwrap();
    assert_eq!(replayed(&open(&folder(504))).len(), beginning(9).len());
    let said = Store::open(&folder(505)).unwrap_err().to_string();
    assert!(said.contains("the path of the store is too long: 505 bytes, and SQLite takes 504"), "{said}");
    assert!(!folder(505).exists(), "no folder is left that a later command would take for a manager's");
}

#[test]
fn the_id_stays_and_the_epoch_grows() {
    let folder = tempfile::tempdir().unwrap();
    let identity = |folder: &Path| {
        let store = open(folder);
        (store.id(), store.epoch())
    };
    let ((id, first), (same, second)) = (identity(folder.path()), identity(folder.path()));
    assert!(id == same && first < second, "epochs {first} and {second}");
    let other = tempfile::tempdir().unwrap();
    assert_ne!(open(other.path()).id(), id);
    // One that was put back from a backup repeats none.
    let older = Connection::open(folder.path().join(FILE)).unwrap();
    let transaction = older.unchecked_transaction().unwrap();
    schema::put(&transaction, "epoch", "1").unwrap();
    transaction.commit().unwrap();
    drop(older);
    let third = identity(folder.path()).1;
    assert!(third > second, "epochs {second} and {third}");
    // The clock is wrong, and the store old: what is remembered beside it counts.
    let mut store = open(folder.path());
    let later = store.epoch() + (1 << 40);
    store.live_after(later).unwrap();
    assert_eq!(store.epoch(), later + 1);
    store.commit(&beginning(1)).unwrap();
    store.live_after(later).unwrap();
    assert_eq!(store.epoch(), later + 1, "it is larger already");
}

#[test]
fn a_store_that_is_read_is_neither_held_nor_changed() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = open(folder.path());
    writer.commit(&beginning(9)).unwrap();
    let written = replayed(&writer);
    let mut reader = Store::open_to_read(folder.path()).unwrap();
    assert_eq!((reader.id(), reader.epoch()), (writer.id(), writer.epoch()));
    assert_eq!(replayed(&reader), written);
    reader.commit(&beginning(9)).unwrap();
    drop(writer);
    // The lock is free although the reader lives.
    let again = open(folder.path());
    assert_eq!(replayed(&again), written);
    assert!(again.epoch() > reader.epoch());
}

#[test]
fn who_reads_a_store_later_knows_what_its_manager_was_told() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path());
    assert_eq!(store.walltime_margin().unwrap(), None, "one of a former version");
    let policies = Policies { distribution: None, ..Policies::default() };
    let configured = Settings { walltime_margin: Span::from_secs(300), policies, ..Settings::default() };
    store.note_configured(&configured).unwrap();
    drop(store);
    let config = Config { is_offline: true, ..Config::new(folder.path().into(), "ann".into()) };
    let reader = Store::open_to_read(folder.path()).unwrap();
    let settings = settings(&config, &reader).unwrap();
    assert_eq!((settings.policies, settings.only_reads), (policies, true));
    assert_eq!(settings.walltime_margin, configured.walltime_margin);
}

#[test]
fn a_store_at_rest_is_read_once_and_nothing_is_left_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let files = || {
        let entries = fs::read_dir(folder.path()).unwrap();
        entries.map(|entry| entry.unwrap().file_name()).collect::<BTreeSet<_>>()
    };
    let read = || {
        Store::read_once(folder.path(), |store| {
            let reader = store.reader();
            reader.finished(JobId(1), 0..9, 9)?;
            Ok(replayed(store))
        })
    };
    let mut writer = open(folder.path());
    writer.commit(&beginning(9)).unwrap();
    // Beside the writer its log is read.
    let written = replayed(&writer);
    assert_eq!(read().unwrap(), written);
    drop(writer);
    let before = files();
    assert_eq!(read().unwrap(), written);
    assert_eq!(files(), before);
    // A manager that begins meanwhile is not missed.
    let n_read = Cell::new(0);
    let both = Store::read_once(folder.path(), |store| {
        n_read.set(n_read.get() + 1);
        if n_read.get() == 1 {
            open(folder.path()).commit(&beginning(2)).unwrap();
        }
        Ok(replayed(store))
    });
    assert_eq!(n_read.get(), 2);
    assert!(both.unwrap().len() > written.len());
}

#[test]
fn what_is_no_store_cannot_be_read_and_is_not_made() {
    let folder = tempfile::tempdir().unwrap();
    assert!(Store::open_to_read(folder.path()).is_err());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    fs::write(folder.path().join(FILE), "").unwrap();
    let error = Store::open_to_read(folder.path()).unwrap_err();
    assert!(matches!(error, StoreError::TooOld { found: 0, .. }), "{error}");
}

#[test]
fn a_second_manager_is_refused_and_told_who_is_first() {
    let folder = tempfile::tempdir().unwrap();
    let first = open(folder.path());
    let host = nix::unistd::gethostname().unwrap().into_string().unwrap();
    let expected = format!(
        "cannot open the store in FOLDER: another manager uses it (process {} on host {host}); \
         stop that one or choose another folder",
        std::process::id()
    );
    assert_eq!(refusal(folder.path()), expected);
    drop(first);
    open(folder.path());
}

#[test]
fn a_store_by_another_name_is_the_same_store() {
    let base = tempfile::tempdir().unwrap();
    let folder = |name: &str| {
        let folder = base.path().join(name);
        fs::create_dir_all(&folder).unwrap();
        folder
    };
    let store = |name: &str| folder(name).join(FILE);
    let is_in_use = |name: &str| matches!(Store::open(&folder(name)), Err(StoreError::InUse { .. }));
    let first = open(&folder("a"));
    symlink("../a/store.sqlite", store("b")).unwrap();
    assert!(is_in_use("b"));
    drop(first);
    let second = open(&folder("b"));
    assert!(is_in_use("a"), "nor the other way round");
    drop(second);
    // Where all is links, the lock is one, too.
    symlink("../a/store.sqlite", store("links")).unwrap();
    symlink("../a/lock", folder("links").join("lock")).unwrap();
    let linked = open(&folder("links"));
    assert!(is_in_use("a") && is_in_use("b"));
    drop(linked);
    // A file elsewhere, to which several lead and which is not there yet.
    ["c", "d"].iter().for_each(|name| symlink("../big/disk", store(name)).unwrap());
    folder("big");
    let mut third = open(&folder("c"));
    assert!(is_in_use("d"));
    third.commit(&beginning(9)).unwrap();
    let committed = replayed(&third);
    assert_eq!(Store::read_once(&folder("d"), |store| Ok(replayed(store))).unwrap(), committed);
    drop(third);
    assert_eq!(replayed(&open(&folder("d"))), committed);
    fs::hard_link(store("a"), folder("e").join(FILE)).unwrap();
    let said = refusal(&folder("e"));
    assert!(said.contains("FOLDER/store.sqlite: the file has 2 names (hard links)"), "{said}");
}

/// Its lock was removed. What the first had committed before is known to the second.
#[test]
fn who_has_opened_a_store_last_goes_on_and_the_other_ends() {
    let folder = tempfile::tempdir().unwrap();
    let mut first = open(folder.path());
    first.commit(&beginning(9)).unwrap();
    fs::remove_file(folder.path().join("lock")).unwrap();
    let mut second = open(folder.path());
    let before = replayed(&second);
    assert_eq!(before, replayed(&first));
    assert!(matches!(first.commit(&beginning(9)), Err(StoreError::TakenOver { .. })));
    assert!(matches!(first.commit(&beginning(9)), Err(StoreError::Broken { .. })));
    assert_eq!(replayed(&second), before);
    let more = [Record::JobPaused { job: JobId(1), at: Time(9) }];
    second.commit(&more).unwrap();
    drop((first, second));
    assert_eq!(replayed(&open(folder.path())), [before, more.to_vec()].concat());
}

#[test]
fn a_lock_file_of_a_dead_manager_is_no_hindrance() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("lock"), "pid 1\nhost elsewhere\n").unwrap();
    open(folder.path());
}

#[test]
fn what_is_no_store_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(FILE);
    let text = "notes\n".repeat(1000);
    fs::write(&path, &text).unwrap();
    assert_eq!(
        refusal(folder.path()),
        "cannot open FOLDER/store.sqlite: it is not a Pilotfish store (no SQLite file)"
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
    fs::remove_file(&path).unwrap();
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE journal (entry TEXT)").unwrap();
    let before = fs::read(&path).unwrap();
    assert_eq!(
        refusal(folder.path()),
        "cannot open FOLDER/store.sqlite: it is not a Pilotfish store (an SQLite file of another program)"
    );
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn a_file_in_place_of_the_folder_is_refused() {
    let base = tempfile::tempdir().unwrap();
    fs::write(base.path().join("file"), "").unwrap();
    assert_eq!(refusal(&base.path().join("file")), "cannot create the folder FOLDER: not a directory");
}

#[test]
fn a_folder_that_others_use_is_refused_and_stays_open_to_them() {
    let folder = tempfile::tempdir().unwrap();
    let mode_of = || fs::metadata(folder.path()).unwrap().permissions().mode() & 0o777;
    let permit = |mode| fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).unwrap();
    permit(0o755);
    fs::write(folder.path().join("data.txt"), "shared").unwrap();
    let refusal = refusal(folder.path());
    assert!(refusal.contains("it has other things in it (data.txt)"), "{refusal}");
    assert!(!refusal.contains("chmod"), "a folder of others is not to be closed to them: {refusal}");
    assert_eq!((mode_of(), fs::read_dir(folder.path()).unwrap().count()), (0o755, 1));
    // Nobody else uses it, or it has what an operator has put there.
    permit(0o700);
    drop(Store::open(folder.path()).unwrap());
    permit(0o755);
    drop(Store::open(folder.path()).unwrap());
    assert_eq!(mode_of(), 0o700);
    let configured = tempfile::tempdir().unwrap();
    fs::set_permissions(configured.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(configured.path().join("manager.yaml"), "platforms: []").unwrap();
    drop(Store::open(configured.path()).unwrap());
}

#[test]
fn a_newer_store_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    open(folder.path()).connection.pragma_update(None, "user_version", 7).unwrap();
    assert_eq!(
        refusal(folder.path()),
        "cannot open FOLDER/store.sqlite: its format has version 7, this program knows versions up to 4; \
         use the Pilotfish that wrote it, or a newer one"
    );
}

#[test]
fn a_damaged_store_is_refused() {
    // Also where replay would not look.
    for table in ["journal", "outputs"] {
        let folder = tempfile::tempdir().unwrap();
        let mut store = open(folder.path());
        store.commit(&beginning(9)).unwrap();
        let place = "SELECT (rootpage - 1) * (SELECT page_size FROM pragma_page_size) \
                     FROM sqlite_schema WHERE name = ?1";
        let place: u32 = store.connection.query_row(place, [table], |row| row.get(0)).unwrap();
        drop(store);
        let path = folder.path().join(FILE);
        let mut bytes = fs::read(&path).unwrap();
        bytes[place as usize..][..1000].fill(0x55);
        fs::write(&path, bytes).unwrap();
        let refused = Store::open(folder.path()).unwrap_err();
        assert!(matches!(refused, StoreError::Damaged { .. }), "{refused}");
        assert!(refused.to_string().contains("store.sqlite: the store is damaged: "), "{refused}");
    }
}

#[test]
fn a_store_without_its_version_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    open(folder.path())
        .connection
        .execute("UPDATE meta SET value = '0' WHERE name = 'schema_version'", [])
        .unwrap();
    assert_eq!(
        refusal(folder.path()),
        "cannot open FOLDER/store.sqlite: the store is damaged: meta says schema version 0, the file's head 4; \
         restore it from a backup"
    );
}

#[test]
fn a_folder_without_write_permission_is_refused() {
    if let Some(folder) = std::env::var_os(CHILD_FOLDER) {
        println!("\nrefused: {}", refusal(Path::new(&folder)));
        return;
    }
    let refused_to_child = |folder: &Path| {
        let mut command =
            child("store::tests::opening::a_folder_without_write_permission_is_refused", folder);
        if nix::unistd::geteuid().is_root() {
            // To the superuser nothing is read-only; to nobody it is.
            command.uid(65534).gid(65534);
        }
        let output = String::from_utf8(command.output().unwrap().stdout).unwrap();
        output.lines().find_map(|line| line.strip_prefix("refused: ")).unwrap_or(&output).to_owned()
    };
    let base = tempfile::tempdir().unwrap();
    let permit = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let give_to = |user| {
        if nix::unistd::geteuid().is_root() {
            std::os::unix::fs::chown(base.path(), Some(user), None).unwrap();
        }
    };
    permit(base.path(), 0o555);
    if nix::unistd::geteuid().is_root() {
        let refusal = refused_to_child(base.path());
        assert!(refusal.starts_with("cannot use the folder FOLDER: it belongs to user 0, "), "{refusal}");
    }
    give_to(65534);
    assert_eq!(
        refused_to_child(base.path()),
        "cannot open the lock file FOLDER/lock: Permission denied (os error 13)"
    );
    assert_eq!(
        refused_to_child(&base.path().join("new")),
        "cannot create the folder FOLDER: Permission denied (os error 13)"
    );
    give_to(0);
    permit(base.path(), 0o755);
    open(base.path());
    give_to(65534);
    permit(&base.path().join("lock"), 0o666);
    permit(&base.path().join(FILE), 0o444);
    permit(base.path(), 0o555);
    assert_eq!(
        refused_to_child(base.path()),
        "cannot open FOLDER/store.sqlite: Permission denied (os error 13)"
    );
    permit(&base.path().join(FILE), 0o666);
    assert_eq!(
        refused_to_child(base.path()),
        "cannot open FOLDER/store.sqlite: the file or its folder is read-only; make both writable"
    );
    permit(base.path(), 0o755);
}

#[test]
fn an_older_store_is_migrated_step_by_step() {
    const NEXT: &[schema::Migration] = &[
        schema::Migration { version: 1, sql: "this has been done" },
        schema::Migration { version: 2, sql: "and this" },
        schema::Migration { version: 3, sql: "this too" },
        schema::Migration { version: 4, sql: "and this as well" },
        schema::Migration { version: 5, sql: "CREATE TABLE notes (note TEXT) STRICT" },
        schema::Migration { version: 6, sql: "INSERT INTO notes VALUES ('kept')" },
    ];
    const FAILING: &[schema::Migration] = &[
        schema::Migration { version: 1, sql: "this has been done" },
        schema::Migration { version: 2, sql: "and this" },
        schema::Migration { version: 3, sql: "this too" },
        schema::Migration { version: 4, sql: "and this as well" },
        schema::Migration { version: 5, sql: "DELETE FROM journal; CREATE TABLE journal (again TEXT)" },
    ];
    let folder = tempfile::tempdir().unwrap();
    open(folder.path()).commit(&beginning(9)).unwrap();
    let refused = Store::open_with(folder.path(), FAILING).unwrap_err().to_string();
    assert!(refused.contains("table journal already exists"), "{refused}");
    assert_eq!(replayed(&open(folder.path())), beginning(9));
    let store = Store::open_with(folder.path(), NEXT).unwrap();
    assert_eq!(replayed(&store), beginning(9));
    let note: String = store.connection.query_row("SELECT note FROM notes", [], |row| row.get(0)).unwrap();
    assert_eq!(note, "kept");
    drop(store);
    let refused = Store::open(folder.path()).unwrap_err();
    assert!(matches!(refused, StoreError::TooNew { found: 6, known: 4, .. }), "{refused}");
}

#[test]
fn a_commit_is_flushed_to_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let mode: String = store.connection.pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap();
    let flushes: i64 = store.connection.pragma_query_value(None, "synchronous", |row| row.get(0)).unwrap();
    // 2 is FULL: the log is flushed at each commit.
    assert_eq!((mode.as_str(), flushes), ("wal", 2));
}
