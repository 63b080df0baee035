//! A store that was damaged, or changed by somebody: opened, replayed, read and gone on with, or refused
//! with words. As a whole file, by changed bytes, or by changed values in rows.

use std::{fs, path::Path};

use manager::store::{FILE, Store};
use rusqlite::{Connection, types::Value};
use scheduler::{
    engine::interface::Event,
    ids::{JobId, PilotId, TaskId},
};

use crate::{
    Check, Target,
    bound::Bound,
    steps,
    world::{self, World},
};

/// See the module.
pub const TARGET: Target = Target {
    name: "store",
    seeds,
    words: &[
        "{\"JobAccepted\":{",
        "{\"TasksCancelled\":{",
        "{\"TasksReopened\":{",
        "{\"PilotLost\":{",
        "{\"Reported\":{",
        "{\"PilotRegistered\":{",
        "{\"AllocationIntended\":{",
        "\"job\":1",
        "\"tasks\":[[0,18446744073709551615]]",
        "\"n_tasks\":0",
        "18446744073709551615",
        "\"verdict\":\"Final\"",
        "\"PilotLost\"",
        "{\"Retry\":{\"at\":1}}",
    ],
    start,
    bound: Bound { constant: 16 << 20, factor: 4096 },
    n_fast: 600,
};

/// With every kind of record in it, and without checksums: changed values are so read, and not refused at once.
const GOLDEN: &[u8] = include_bytes!("../../../manager/golden/store-v2.sqlite");

/// How an input begins: with changes of bytes, …
const BYTES: u8 = b'b';
/// … with changes of values; else it is the whole file.
const VALUES: u8 = b'v';

/// What can be changed in a row.
const COLUMNS: [(&str, &str); 36] = [
    ("journal", "record"),
    ("journal", "seq"),
    ("journal", "kind"),
    ("journal", "at"),
    ("reports", "seq"),
    ("reports", "position"),
    ("reports", "pilot"),
    ("reports", "report_seq"),
    ("reports", "job"),
    ("reports", "at"),
    ("reports", "first_index"),
    ("reports", "last_index"),
    ("reports", "level"),
    ("reports", "n_tasks"),
    ("reports", "n_attempts"),
    ("reports", "wall_us"),
    ("reports", "wall_squared"),
    ("reports", "cpu_us"),
    ("reports", "memory_bytes_max"),
    ("reports", "ranges"),
    ("reports", "columns"),
    ("failures", "seq"),
    ("failures", "number"),
    ("failures", "job"),
    ("failures", "task_index"),
    ("failures", "attempt"),
    ("failures", "failure"),
    ("failures", "started_us"),
    ("failures", "wall_us"),
    ("failures", "retry_at"),
    ("outputs", "job"),
    ("outputs", "first_index"),
    ("outputs", "last_index"),
    ("outputs", "frames"),
    ("pilots", "born_at"),
    ("meta", "value"),
];
/// A row more of the journal.
const INSERT: u8 = 0xff;
/// A row less of a column's table.
const DELETE: u8 = 0x80;

fn start() -> Check {
    let folder = tempfile::tempdir().expect("a folder");
    Box::new(move |bytes| {
        let path = folder.path().join(FILE);
        for suffix in ["", "-wal", "-shm"] {
            // They may not be there.
            let _ = fs::remove_file(folder.path().join(format!("{FILE}{suffix}")));
        }
        match bytes.split_first() {
            Some((&BYTES, changes)) => fs::write(&path, with_changes(changes)),
            Some((&VALUES, changes)) => fs::write(&path, GOLDEN).map(|()| change_values(&path, changes)),
            _ => fs::write(&path, bytes),
        }
        .expect("the file is written");
        use_store(folder.path());
    })
}

/// The golden file with other bytes here and there: four bytes where, one how many, the bytes.
fn with_changes(mut changes: &[u8]) -> Vec<u8> {
    let mut file = GOLDEN.to_vec();
    while let [a, b, c, d, n_bytes, rest @ ..] = changes {
        let at = u32::from_le_bytes([*a, *b, *c, *d]) as usize % file.len();
        let (bytes, rest) = rest.split_at(usize::from(*n_bytes).min(rest.len()));
        let end = (at + bytes.len()).min(file.len());
        file[at..end].copy_from_slice(&bytes[..end - at]);
        changes = rest;
    }
    file
}

/// Sets values in rows: a step's kind is the column, its first byte the row, its second the type.
/// What the tables refuse stays as it is.
fn change_values(path: &Path, changes: &[u8]) {
    let connection = Connection::open(path).expect("the golden store is opened");
    connection.execute_batch("PRAGMA synchronous = OFF").expect("it is a setting");
    for (kind, step) in steps::read(changes) {
        let [row, form, rest @ ..] = step else { continue };
        let (table, column) = COLUMNS[usize::from(kind & !DELETE) % COLUMNS.len()];
        let row = format!(
            "(SELECT seq FROM {table} ORDER BY seq LIMIT 1 OFFSET {row} % (SELECT count(*) FROM {table}))"
        );
        let row = match table {
            "meta" | "pilots" => "(SELECT 1)".to_owned(),
            _ => format!("seq = {row}"),
        };
        // A value of another type, or a number that is there already, is refused: fine.
        let _ = match kind {
            INSERT => connection.execute(
                "INSERT INTO journal VALUES ((SELECT max((SELECT max(seq) FROM journal), (SELECT max(seq) FROM reports)) + 1), 'k', 1, ?1)",
                [value(b't', rest)],
            ),
            _ if kind & DELETE != 0 => connection.execute(&format!("DELETE FROM {table} WHERE {row}"), []),
            _ => connection.execute(&format!("UPDATE {table} SET {column} = ?1 WHERE {row}"), [value(*form, rest)]),
        };
    }
}

fn value(form: u8, bytes: &[u8]) -> Value {
    match form {
        b'i' => {
            let mut number = [0; 8];
            let n = bytes.len().min(8);
            number[..n].copy_from_slice(&bytes[..n]);
            Value::Integer(i64::from_le_bytes(number))
        }
        b'b' => Value::Blob(bytes.to_vec()),
        b'0' => Value::Null,
        _ => Value::Text(String::from_utf8_lossy(bytes).into_owned()),
    }
}

fn use_store(folder: &Path) {
    let store = match Store::open(folder) {
        Ok(store) => store,
        Err(error) => return assert!(error.to_string().contains(FILE), "{error}"),
    };
    for job in 1..4 {
        let job = JobId(job);
        // What is damaged there is refused there.
        drop(store.reader().finished(job, 0..u64::MAX, 100));
        drop(store.reader().outputs(job, 0..u64::MAX, 1000));
        drop(store.reader().outputs_around_damage(job, 0..u64::MAX, 1000));
        drop(store.reader().output_bytes(job));
        drop(store.reader().arrivals(job, None, 0, 1000));
        (0..4).for_each(|index| drop(store.reader().attempts(TaskId { job, index })));
    }
    let mut records = Vec::new();
    if let Err(error) = store.replay(|record| records.push(record)) {
        assert!(error.to_string().contains(FILE), "{error}");
        return;
    }
    drop(store);
    go_on(World::restored(records));
}

/// What was not refused is a manager's past like any other.
fn go_on(mut world: World) {
    let pilots: Vec<PilotId> = world.engine.durable().pilots().keys().copied().collect();
    for pilot in pilots.into_iter().take(4) {
        let pull = Box::new(world::pull());
        world.say(|request| Event::Pulled { request, pilot, pull });
    }
    world.wait(100);
    let tags: Vec<String> =
        world.engine.durable().allocations().values().map(|held| held.tag.clone()).collect();
    for tag in tags.into_iter().take(4) {
        let registration = Box::new(world::registration(&tag, 5));
        world.say(|request| Event::PilotRegistered { request, registration });
    }
    let last = world.engine.durable().pilots().keys().next_back().copied();
    if let Some(pilot) = last {
        let report = Some(world::report(1, 0));
        let pull = Box::new(scheduler::pull::Pull { epoch: 2, report, ..world::pull() });
        world.say(|request| Event::Pulled { request, pilot, pull });
    }
    world.say(|request| Event::Asked { request, query: scheduler::engine::interface::Query::Status });
    world.say(|request| Event::Asked { request, query: scheduler::engine::interface::Query::Jobs });
    world.wait(1000);
    world.check_records();
}

fn seeds() -> Vec<Vec<u8>> {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join(FILE), GOLDEN).expect("the file is written");
    let connection = Connection::open(folder.path().join(FILE)).expect("the golden store is opened");
    let mut statement = connection.prepare("SELECT record FROM journal ORDER BY seq").expect("a statement");
    let records = statement.query_map([], |row| row.get::<_, String>(0)).expect("rows");
    let records: Vec<Vec<u8>> = records.map(|record| record.expect("a text").into_bytes()).collect();
    let values = |steps: &[(u8, Vec<u8>)]| [&[VALUES][..], &steps::write(steps)].concat();
    let mut seeds = Vec::new();
    for (row, record) in (0..).zip(&records) {
        seeds.push(values(&[(0, [&[row, b't'], record.as_slice()].concat())]));
        seeds.push(values(&[(INSERT, [b"\0t", record.as_slice()].concat())]));
    }
    for column in 1..COLUMNS.len() as u8 {
        seeds.push(values(&[(column, vec![1, b'i', 2]), (column | DELETE, vec![0, 0])]));
        seeds.push(values(&[(column, vec![0, b'b', 0, 3, 5, 1])]));
    }
    seeds.push([&[BYTES][..], &60u32.to_le_bytes(), &[4, 0, 0, 0, 9]].concat());
    seeds.push(
        [&[BYTES][..], &9000u32.to_le_bytes(), &[1, 7], &20_000u32.to_le_bytes(), &[2, 0, 0xff]].concat(),
    );
    seeds
}
