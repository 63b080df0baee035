//! An input that is several messages one after the other: a byte for the kind, two for the length, the
//! message. So one input is a whole conversation, and a changed byte leaves the rest of it as it was.

/// Steps of one input at most.
const N_STEPS_MAX: usize = 64;

/// The kind and the contents of each step; what is cut off ends early.
pub fn read(mut bytes: &[u8]) -> Vec<(u8, &[u8])> {
    let mut steps = Vec::new();
    while let [kind, low, high, rest @ ..] = bytes
        && steps.len() < N_STEPS_MAX
    {
        let n_bytes = usize::from(u16::from_le_bytes([*low, *high])).min(rest.len());
        let (step, rest) = rest.split_at(n_bytes);
        steps.push((*kind, step));
        bytes = rest;
    }
    steps
}

/// Steps as one input.
pub fn write(steps: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (kind, step) in steps {
        let n_bytes = u16::try_from(step.len()).expect("a seed's step is short");
        bytes.push(*kind);
        bytes.extend(n_bytes.to_le_bytes());
        bytes.extend_from_slice(step);
    }
    bytes
}
