use std::collections::BTreeMap;
fn main() {
    let mut args = std::env::args().skip(1).map(|a| a.parse::<u64>().unwrap());
    let (from, n) = (args.next().unwrap(), args.next().unwrap_or(0));
    if n == 0 {
        println!("{:?}", simulator::faults::run(from, Some(&mut |line| println!("{line}"))));
        return;
    }
    std::panic::set_hook(Box::new(|_| {}));
    let mut kinds: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    let mut total = 0;
    let mut events = 0;
    let mut rep = 0;
    let mut ex = 0;
    for seed in from..from + n {
        let out = std::panic::catch_unwind(|| simulator::faults::run(seed, None));
        let text = match out {
            Ok(Ok(o)) => {
                total += 1;
                events += o.n_events;
                rep += o.n_repeated;
                ex += o.n_executions;
                continue;
            }
            Ok(Err(v)) => v.0,
            Err(e) => format!(
                "PANIC {}",
                e.downcast_ref::<String>()
                    .cloned()
                    .or(e.downcast_ref::<&str>().map(|s| s.to_string()))
                    .unwrap_or_default()
            ),
        };
        let key: String = text.chars().filter(|c| !c.is_ascii_digit()).take(70).collect();
        let e = kinds.entry(key).or_default();
        if e.is_empty() {
            println!("seed {seed}: {text}");
        }
        e.push(seed);
    }
    for (k, v) in kinds {
        println!("{:5} {k} e.g. {:?}", v.len(), &v[..v.len().min(6)]);
    }
    println!("{total} fine; {events} events, {ex} executions, {rep} repeated");
}
