//! Rows of logits, and masks of who sees whom.

use dlmrs::pass::Bits;
use dlmrs::{Error, Llm};
use numpy::{PyArray2, PyArrayMethods, PyReadonlyArray2, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;

use crate::errors::Result;
use crate::value;

/// The arguments of `forward`.
pub(crate) struct Forward {
    /// [R] ids.
    pub(crate) token_ids: Vec<u32>,
    /// [R] rotary positions; None: 0, 1, ...
    pub(crate) positions: Option<Vec<u32>>,
    /// [R, R], True = sees; None: the family's own visibility.
    pub(crate) mask: Option<Bits>,
    /// The rows to give back; None: all.
    pub(crate) rows: Option<Vec<u32>>,
}

impl Forward {
    /// The rows as a numpy array [rows, V].
    pub(crate) fn run<'py>(self, py: Python<'py>, llm: &Llm) -> Result<Bound<'py, PyArray2<f32>>> {
        let Self { token_ids, positions, mask, rows } = self;
        let logits = py.detach(|| llm.logits(&token_ids, positions, mask, rows)).map_err(renamed)?;
        array(py, &logits, llm.config().vocab)
    }

    /// Attention mass of `queries` on `keys` as a numpy array [queries, keys]; `rows` has no meaning here.
    pub(crate) fn attention_mass<'py>(
        self,
        py: Python<'py>,
        llm: &Llm,
        queries: Vec<u32>,
        keys: Vec<u32>,
    ) -> Result<Bound<'py, PyArray2<f32>>> {
        let Self { token_ids, positions, mask, rows: _ } = self;
        // Errors of a tap do not say which of the two it was.
        for (name, asked) in [("queries", &queries), ("keys", &keys)] {
            if let Some(row) = asked.iter().find(|&&row| row as usize >= token_ids.len()) {
                return Err(Error::input(name, format!("asks for row {row} of {} tokens", token_ids.len())).into());
            }
        }
        let columns = keys.len();
        let mass = py.detach(|| llm.attention_mass(&token_ids, positions, mask, queries, keys)).map_err(renamed)?;
        array(py, &mass, columns)
    }
}

/// Rows of so many columns.
fn array<'py>(py: Python<'py>, rows: &[Vec<f32>], columns: usize) -> Result<Bound<'py, PyArray2<f32>>> {
    let array = PyArray2::<f32>::zeros(py, [rows.len(), columns], false);
    let mut view = array.readwrite();
    for (mut to, from) in view.as_array_mut().rows_mut().into_iter().zip(rows) {
        to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
    }
    drop(view);
    Ok(array)
}

/// Errors of a pass name its fields; the caller knows them as arguments.
fn renamed(error: Error) -> Error {
    let Error::Pass { field, message } = error else { return error };
    let argument = match field {
        "tokens" => "token_ids",
        "sees" => "mask",
        "read" => "rows",
        other => other,
    };
    Error::input(argument, message)
}

/// A square mask of bools. Numbers are refused: a mask to be added (0 = sees) would be read upside down.
pub(crate) fn mask(object: &Bound<'_, PyAny>) -> Result<Bits> {
    const WANTED: &str = "a bool array of shape (R, R), True = sees,";
    let array = object.py().import("numpy")?.call_method1("asarray", (object,));
    let Some(array) = array.ok().and_then(|array| array.cast_into::<PyUntypedArray>().ok()) else {
        return Err(value::refuse("mask", object, WANTED).into());
    };
    let Ok(bools) = array.extract::<PyReadonlyArray2<'_, bool>>() else {
        let message = format!("has type {} and shape {:?}; {WANTED} is needed", array.dtype(), array.shape());
        return Err(Error::input("mask", message).into());
    };
    let bools = bools.as_array();
    Ok(Bits::from_fn(bools.nrows(), bools.ncols(), |row, column| bools[(row, column)]))
}
