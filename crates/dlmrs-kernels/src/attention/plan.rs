//! Which queries are worked on together.

use super::AttentionPass;
use super::task::{Task, WIDTH};
use crate::Team;
use crate::disjoint::Disjoint;
use crate::simd::{LANES, launch};

/// Below this many multiplications the other threads are not woken.
const SMALL: usize = 1 << 16;

/// The queries `from..to` of one class and one key/value head.
struct Item {
    pass: usize,
    class: usize,
    g: usize,
    from: usize,
    to: usize,
}

/// Cuts all passes into tasks of at most [`WIDTH`] queries that see the same keys of the same head, and lets the team do them.
pub(super) fn run(team: &Team, passes: &[(AttentionPass<'_>, Disjoint<'_>)]) {
    let members: Vec<Vec<Vec<u32>>> = passes.iter().map(|(pass, _)| members(pass)).collect();
    let mut items = cut(passes, &members, WIDTH);
    if items.len() < 2 * team.threads() {
        // Too few for the threads to share evenly. Narrow tasks fetch keys more often, and give the same bits.
        items = cut(passes, &members, LANES);
    }
    let multiplications = |item: &Item| {
        let (pass, _) = &passes[item.pass];
        (item.to - item.from) * pass.sight.classes[item.class].len() * pass.head_dim
    };
    let work: usize = items.iter().map(multiplications).sum();
    let work_on = |i: usize| {
        let item = &items[i];
        let (pass, out) = &passes[item.pass];
        let rows = &members[item.pass][item.class];
        let keys = &pass.sight.classes[item.class];
        launch(team.isa(), Task { pass, out: *out, rows, keys, g: item.g, queries: item.from..item.to });
    };
    if work < SMALL {
        (0..items.len()).for_each(work_on);
    } else {
        team.run(items.len(), work_on);
    }
}

/// Tasks of at most `width` queries.
fn cut(passes: &[(AttentionPass<'_>, Disjoint<'_>)], members: &[Vec<Vec<u32>>], width: usize) -> Vec<Item> {
    let mut items = Vec::new();
    for (index, (pass, _)) in passes.iter().enumerate() {
        for g in 0..pass.kv_heads {
            for (class, rows) in members[index].iter().enumerate() {
                let queries = rows.len() * (pass.heads / pass.kv_heads);
                let starts = (0..queries).step_by(width);
                items.extend(starts.map(|from| Item { pass: index, class, g, from, to: (from + width).min(queries) }));
            }
        }
    }
    items
}

/// The rows of each class, in order.
fn members(pass: &AttentionPass<'_>) -> Vec<Vec<u32>> {
    let mut members = vec![Vec::new(); pass.sight.classes.len()];
    for (row, class) in (0..).zip(&pass.sight.class_of_row) {
        members[*class as usize].push(row);
    }
    members
}
