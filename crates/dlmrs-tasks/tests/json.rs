//! Data as JSON: what is read, and what a wrong file is told.
#![allow(clippy::unwrap_used, clippy::expect_used)] // tests

use std::path::PathBuf;

use dlmrs_tasks::{Record, data};

fn file(folder: &tempfile::TempDir, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

/// The records of a file of this name and content, or the message without the folder.
fn read(name: &str, bytes: impl AsRef<[u8]>) -> Result<Vec<Record>, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, name, bytes);
    data::read(&path).map_err(|e| e.to_string().replace(&format!("{}/", folder.path().display()), ""))
}

fn questions(records: &[Record]) -> Vec<&str> {
    records.iter().map(|record| record.text("question").unwrap()).collect()
}

#[test]
fn lines_in_every_dress() {
    let plain = read("a.jsonl", "{\"question\": \"é\"}\n{\"question\": \"b\"}\n").unwrap();
    assert_eq!(questions(&plain), ["é", "b"]);
    assert!(plain[1].place.starts_with("line 2 of ") && plain[1].place.ends_with("a.jsonl"), "{}", plain[1].place);

    let windows = read("a.jsonl", "\u{feff}{\"question\": \"a\"}\r\n\r\n  \r\n{\"question\": \"b\"}").unwrap();
    assert_eq!(questions(&windows), ["a", "b"]);
    assert!(windows[1].place.starts_with("line 4 of "), "{}", windows[1].place);

    // By what it holds, not by its name.
    assert_eq!(questions(&read("a.json", "{\"question\": \"a\"}\n{\"question\": \"b\"}\n").unwrap()), ["a", "b"]);
    assert_eq!(questions(&read("a.json", "\u{feff} \n[{\"question\": \"a\"},\n {\"question\": \"b\"}]\n").unwrap()), ["a", "b"]);
    assert_eq!(questions(&read("a.jsonl", "[{\"question\": \"a\"}]").unwrap()), ["a"]);
}

#[test]
fn fields_keep_their_order_and_kind() {
    let records = read("a.jsonl", r#"{"z": [1, "x", null], "a": {"b": 0.5}}"#).unwrap();
    let fields = serde_json::to_string(&records[0].fields).unwrap();
    assert_eq!(fields, r#"{"z":[1,"x",null],"a":{"b":0.5}}"#);
}

#[test]
fn wrong_files_are_named() {
    let cases: [(&str, &[u8], &str); 13] = [
        ("a.jsonl", b"{\"question\": \"a\"}\n\n{\"question\": b}\n", "line 3 of a.jsonl: column 14 is not JSON: expected value"),
        ("a.jsonl", b"{\"question\": \"a\"", "line 1 of a.jsonl: column 16 is not JSON: EOF while parsing an object"),
        ("a.jsonl", b"{\"question\": \"a\"} {}\n", "line 1 of a.jsonl: column 19 is not JSON: trailing characters"),
        ("a.jsonl", b"{}\n3\n", "line 2 of a.jsonl: a number was found where a record should be, an object in braces"),
        ("a.jsonl", b"{\"question\": \"\xff\"}\n", "line 1 of a.jsonl: column 15 is not JSON: invalid unicode code point"),
        ("a.jsonl", b"", "a.jsonl: has no records"),
        ("a.jsonl", b"\n \n", "a.jsonl: has no records"),
        ("a.json", b"[]", "a.json: has no records"),
        ("a.json", b"[{\"a\": 1},\n {\"a\": }]", "line 2 of a.json: column 8 is not JSON: expected value"),
        ("a.json", b"[{\"a\": 1}, 3]", "line 1 of a.json: column 13: a number was found where a record should be, an object in braces"),
        ("a.jsonl.gz", b"\x1f\x8b\x08", "a.jsonl.gz: is compressed by gzip; unpack it first"),
        (
            "a.parquet",
            b"version https://git-lfs.github.com/spec/v1\n",
            "a.parquet: is the pointer that Git LFS left in place of the data; fetch the file itself with git lfs pull",
        ),
        ("a.jsonl", b"\xff\xfe{\x00", "a.jsonl: is UTF-16; it should be UTF-8"),
    ];
    for (name, bytes, wanted) in cases {
        assert_eq!(read(name, bytes).unwrap_err(), wanted);
    }
    let missing = data::read(&PathBuf::from("/nowhere/test.jsonl")).unwrap_err().to_string();
    assert!(missing.starts_with("/nowhere/test.jsonl: cannot be read: "), "{missing}");
    let folder = data::read(&std::env::temp_dir()).unwrap_err().to_string();
    assert!(folder.contains("is a folder"), "{folder}");
}

#[test]
fn depth_is_an_error() {
    let deep = format!("{{\"a\": {}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(read("a.jsonl", deep).unwrap_err().contains("recursion limit"));
}

#[test]
fn records_come_one_by_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, "a.jsonl", "{\"question\": \"a\"}\n{\"question\": \"b\"}\nbroken\n{\"question\": \"c\"}\n");
    // What is not asked for is not read.
    let first: Vec<_> = data::records(&path).unwrap().take(2).collect::<Result<_, _>>().unwrap();
    assert_eq!(questions(&first), ["a", "b"]);
    // Nothing follows an error.
    let all: Vec<_> = data::records(&path).unwrap().collect();
    assert!(all.len() == 3 && all[2].is_err());
}
