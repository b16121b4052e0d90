//! Changes to JSON trees and to bytes.

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

/// A change to one node of a tree; nodes are counted from the root on.
#[derive(Clone, Debug)]
pub(crate) enum Edit {
    Set(usize, Value),
    Drop(usize),
    /// Into a list or an object of its own.
    Wrap(usize, bool),
    /// One node in the place of another.
    Copy(usize, usize),
    Rename(usize, String),
}

/// A change to the text.
#[derive(Clone, Debug)]
pub(crate) enum Slip {
    Byte(usize, u8),
    Cut(usize),
    Insert(usize, Vec<u8>),
    Remove(usize, usize),
    /// A passage once more, which doubles keys among other things.
    Again(usize, usize),
}

/// What a file may hold in place of something sensible.
pub(crate) fn junk() -> impl Strategy<Value = Value> {
    let numbers = [json!(0), json!(-1), json!(1), json!(3), json!(4096), json!(u32::MAX), json!(1_u64 << 40), json!(u64::MAX)];
    let more = [json!(i64::MIN), json!(0.5), json!(-0.0), json!(1e308), json!(1e-308), json!(f64::from(f32::MAX))];
    let others = [json!(null), json!(true), json!(false), json!(""), json!("NaN"), json!("../x"), json!([]), json!({}), json!([[], {}])];
    let deep = (1_usize..100)
        .prop_map(|depth| (0..depth).fold(json!(1), |inner, level| if level % 2 == 0 { json!([inner]) } else { json!({"a": inner}) }));
    prop_oneof![
        3 => proptest::sample::select([numbers.as_slice(), &more].concat()),
        2 => proptest::sample::select(others.to_vec()),
        1 => deep,
        1 => "\\PC{0,20}".prop_map(Value::from),
        1 => Just(json!("x".repeat(5000))),
        1 => vec(any::<u32>(), 0..50).prop_map(|ids| json!(ids)),
    ]
}

pub(crate) fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let place = || 0_usize..10_000;
    let edit = prop_oneof![
        4 => (place(), junk()).prop_map(|(at, value)| Edit::Set(at, value)),
        2 => place().prop_map(Edit::Drop),
        1 => (place(), any::<bool>()).prop_map(|(at, list)| Edit::Wrap(at, list)),
        2 => (place(), place()).prop_map(|(from, to)| Edit::Copy(from, to)),
        1 => (place(), "\\PC{0,8}").prop_map(|(at, name)| Edit::Rename(at, name)),
    ];
    vec(edit, 0..4)
}

pub(crate) fn slips() -> impl Strategy<Value = Vec<Slip>> {
    let place = || any::<u32>().prop_map(|place| place as usize);
    let slip = prop_oneof![
        2 => (place(), any::<u8>()).prop_map(|(at, byte)| Slip::Byte(at, byte)),
        1 => place().prop_map(Slip::Cut),
        1 => (place(), vec(any::<u8>(), 1..20)).prop_map(|(at, bytes)| Slip::Insert(at, bytes)),
        1 => (place(), 1_usize..200).prop_map(|(at, length)| Slip::Remove(at, length)),
        1 => (place(), 1_usize..200).prop_map(|(at, length)| Slip::Again(at, length)),
    ];
    // Mostly none, as a text that is not JSON says nothing about what reads the tree.
    prop_oneof![3 => Just(Vec::new()), 1 => vec(slip, 1..4)]
}

/// Applies edits to a tree.
pub(crate) fn edited(mut tree: Value, edits: &[Edit]) -> Value {
    for edit in edits {
        let mut paths = Vec::new();
        collect(&tree, String::new(), &mut paths);
        let path = |at: &usize| paths[at % paths.len()].clone();
        match edit {
            Edit::Set(at, value) => *tree.pointer_mut(&path(at)).unwrap() = value.clone(),
            Edit::Wrap(at, list) => {
                let node = tree.pointer_mut(&path(at)).unwrap();
                let inner = node.take();
                *node = if *list { json!([inner]) } else { json!({"a": inner}) };
            }
            Edit::Copy(from, to) => {
                let value = tree.pointer(&path(from)).unwrap().clone();
                *tree.pointer_mut(&path(to)).unwrap() = value;
            }
            Edit::Drop(at) | Edit::Rename(at, _) => {
                let path = path(at);
                let Some((parent, key)) = path.rsplit_once('/') else { continue };
                let key = key.replace("~1", "/").replace("~0", "~");
                match (tree.pointer_mut(parent).unwrap(), edit) {
                    (Value::Object(map), Edit::Rename(_, name)) => {
                        let value = map.remove(&key).unwrap();
                        map.insert(name.clone(), value);
                    }
                    (Value::Object(map), _) => drop(map.shift_remove(&key)),
                    (Value::Array(items), _) => drop(items.remove(key.parse().unwrap())),
                    _ => unreachable!("only these have parts"),
                }
            }
        }
    }
    tree
}

/// JSON pointers of nodes; of long lists and objects the first ones only, so that every part gets its share.
fn collect(value: &Value, path: String, paths: &mut Vec<String>) {
    const MOST: usize = 40;
    match value {
        Value::Array(items) => items.iter().take(MOST).enumerate().for_each(|(i, item)| collect(item, format!("{path}/{i}"), paths)),
        Value::Object(map) => map.iter().take(MOST).for_each(|(key, item)| {
            collect(item, format!("{path}/{}", key.replace('~', "~0").replace('/', "~1")), paths);
        }),
        _ => (),
    }
    paths.push(path);
}

/// Applies slips to bytes.
pub(crate) fn slipped(mut bytes: Vec<u8>, slips: &[Slip]) -> Vec<u8> {
    for slip in slips {
        if bytes.is_empty() {
            break;
        }
        let n = bytes.len();
        match slip {
            Slip::Byte(at, byte) => bytes[at % n] = *byte,
            Slip::Cut(at) => bytes.truncate(at % n),
            Slip::Insert(at, more) => drop(bytes.splice(at % n..at % n, more.iter().copied())),
            Slip::Remove(at, length) => drop(bytes.drain(at % n..(at % n + length).min(n))),
            Slip::Again(at, length) => {
                let passage = bytes[at % n..(at % n + length).min(n)].to_vec();
                drop(bytes.splice(at % n..at % n, passage));
            }
        }
    }
    bytes
}
