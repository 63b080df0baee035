//! `fuzz-seeds FOLDER`: writes each target's seeds and dictionary where `tests/fuzz/run` wants them.

use std::{fs, io, path::PathBuf};

fn main() -> io::Result<()> {
    let folder = std::env::args_os().nth(1).map(PathBuf::from);
    let folder = folder.ok_or_else(|| io::Error::other("usage: fuzz-seeds FOLDER"))?;
    for target in fuzz::TARGETS {
        let seeds = folder.join(target.name).join("seeds");
        fs::create_dir_all(&seeds)?;
        for (n, seed) in (target.seeds)().iter().enumerate() {
            fs::write(seeds.join(format!("seed-{n}")), seed)?;
        }
        let escaped = |byte: u8| match byte {
            b' '..=b'~' if byte != b'"' && byte != b'\\' => char::from(byte).to_string(),
            other => format!("\\x{other:02x}"),
        };
        let lines = target
            .words
            .iter()
            .map(|word| format!("\"{}\"\n", word.bytes().map(escaped).collect::<String>()));
        fs::write(folder.join(target.name).join("words"), lines.collect::<String>())?;
    }
    Ok(())
}
