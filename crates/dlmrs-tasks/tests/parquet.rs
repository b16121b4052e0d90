//! Data as parquet: what is read, in every compression, and what a damaged file is told.
#![allow(clippy::unwrap_used, clippy::expect_used)] // tests

use std::path::{Path, PathBuf};
use std::sync::Arc;

use dlmrs_tasks::data;
use parquet::basic::{Compression, GzipLevel, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use serde_json::{Value, json};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn rows(path: &Path) -> Vec<Value> {
    data::read(path).unwrap().into_iter().map(|record| Value::Object(record.fields)).collect()
}

#[test]
fn lists_and_structs_become_json() {
    let mmlu = rows(&fixture("mmlu.parquet"));
    let first = json!({
        "question": "Which of these is a prime number?",
        "subject": "abstract_algebra",
        "choices": ["9", "15", "17", "21"],
        "answer": 2,
    });
    assert_eq!((mmlu.len(), &mmlu[0]), (3, &first));
    assert_eq!(mmlu[2]["choices"], json!(["2", "3", "4", ""]));

    let trivia = rows(&fixture("triviaqa.parquet"));
    let answer = json!({
        "aliases": ["The Danube", "Donau"],
        "normalized_aliases": ["danube", "donau"],
        "value": "Danube",
        "type": "WikipediaEntity",
    });
    assert_eq!((trivia.len(), &trivia[0]["answer"]), (3, &answer));
    assert_eq!(trivia[0]["entity_pages"], json!([{"title": "Danube", "score": 0.5}, {"title": "Vienna", "score": null}]));
    assert_eq!(trivia[1]["entity_pages"], json!([]));
    assert_eq!(trivia[2]["entity_pages"], Value::Null);
    assert_eq!(trivia[2]["answer"]["aliases"], json!([]));
    let place = &data::read(&fixture("triviaqa.parquet")).unwrap()[2].place;
    assert!(place.starts_with("row 3 of ") && place.ends_with("triviaqa.parquet"), "{place}");
}

/// Writes `text: string, number: int64, words: list<string>`, several groups of rows.
fn write(path: &Path, compression: Compression, groups: usize, rows: usize) {
    let schema = "message schema {
        REQUIRED BYTE_ARRAY text (UTF8);
        REQUIRED INT64 number;
        OPTIONAL GROUP words (LIST) { REPEATED GROUP list { OPTIONAL BYTE_ARRAY element (UTF8); } }
    }";
    let properties = WriterProperties::builder().set_compression(compression).set_data_page_row_count_limit(100).build();
    let file = std::fs::File::create(path).unwrap();
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties)).unwrap();
    for group in 0..groups {
        let numbers: Vec<i64> = (0..rows).map(|row| (group * rows + row) as i64).collect();
        let texts: Vec<ByteArray> = numbers.iter().map(|number| ByteArray::from(format!("Text {number} é").as_str())).collect();
        let mut out = writer.next_row_group().unwrap();
        let mut column = out.next_column().unwrap().unwrap();
        column.typed::<ByteArrayType>().write_batch(&texts, None, None).unwrap();
        column.close().unwrap();
        let mut column = out.next_column().unwrap().unwrap();
        column.typed::<Int64Type>().write_batch(&numbers, None, None).unwrap();
        column.close().unwrap();
        // Even rows hold two words, odd ones none at all.
        let (mut words, mut definition, mut repetition) = (Vec::new(), Vec::new(), Vec::new());
        for number in &numbers {
            if number % 2 == 0 {
                words.extend([ByteArray::from("even"), ByteArray::from(number.to_string().as_str())]);
                definition.extend([3, 3]);
                repetition.extend([0, 1]);
            } else {
                definition.push(0);
                repetition.push(0);
            }
        }
        let mut column = out.next_column().unwrap().unwrap();
        column.typed::<ByteArrayType>().write_batch(&words, Some(&definition), Some(&repetition)).unwrap();
        column.close().unwrap();
        out.close().unwrap();
    }
    writer.close().unwrap();
}

#[test]
fn every_compression_and_many_pages() {
    let folder = tempfile::tempdir().unwrap();
    let zstd = Compression::ZSTD(ZstdLevel::default());
    let gzip = Compression::GZIP(GzipLevel::default());
    for compression in [Compression::UNCOMPRESSED, Compression::SNAPPY, zstd, gzip, Compression::LZ4_RAW] {
        let path = folder.path().join("a.parquet");
        write(&path, compression, 3, 1500);
        let found = rows(&path);
        assert_eq!(found.len(), 4500);
        for (number, row) in found.iter().enumerate() {
            let words = if number % 2 == 0 { json!(["even", number.to_string()]) } else { Value::Null };
            assert_eq!(row, &json!({"text": format!("Text {number} é"), "number": number, "words": words}), "{compression:?}");
        }
    }
}

/// A file is known by what it begins with.
#[test]
fn the_name_does_not_matter_but_helps() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.bin");
    std::fs::copy(fixture("mmlu.parquet"), &path).unwrap();
    assert_eq!(rows(&path).len(), 3);
    let text = folder.path().join("text.parquet");
    std::fs::write(&text, "{}").unwrap();
    assert!(data::read(&text).unwrap_err().to_string().ends_with("text.parquet: is no parquet file: it should begin with PAR1"));
}

#[test]
fn a_truncated_file_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cut.parquet");
    for name in ["mmlu.parquet", "triviaqa.parquet"] {
        let bytes = std::fs::read(fixture(name)).unwrap();
        for length in (0..bytes.len()).step_by(7) {
            std::fs::write(&path, &bytes[..length]).unwrap();
            let message = data::read(&path).expect_err("a truncated file is no parquet file").to_string();
            assert!(message.contains("cut.parquet: is no parquet file"), "{length} bytes of {name}: {message}");
        }
    }
}

/// Whichever byte is wrong, there is a result or an error with one place, and no memory or time without bound.
#[test]
fn a_damaged_file_never_panics() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bad.parquet");
    let (mut errors, mut total) = (0, 0);
    for (name, step) in [("mmlu.parquet", 1), ("triviaqa.parquet", 4)] {
        let bytes = std::fs::read(fixture(name)).unwrap();
        for position in (0..bytes.len()).step_by(step) {
            let mut bad = bytes.clone();
            bad[position] ^= [0x01, 0x80, 0xff][position % 3];
            std::fs::write(&path, &bad).unwrap();
            total += 1;
            if let Err(e) = data::read(&path) {
                errors += 1;
                assert!(e.place.contains("bad.parquet") && !e.message.is_empty(), "byte {position} of {name}: {e}");
            }
        }
    }
    assert!(errors > total / 4, "{errors} of {total} damaged files were refused");
}
