//! Faults of /dev/shm, as files write them.

use super::{Collector, Table, size, value};
use crate::fault::{
    ExhaustShmInodes, LimitShm, StaleShm,
    shm::{SHM_PRESETS, one},
};

pub(super) fn limit(t: &mut Table<'_, '_>, c: &mut Collector<'_>) -> Option<LimitShm> {
    let v = t.required("to", "to = \"1 MiB\" or \"docker\"", c)?;
    let Some(word) = v.get_ref().as_str().filter(|text| text.starts_with(char::is_alphabetic))
    else {
        return value::size(v, c).map(|to| LimitShm { to });
    };
    let preset = SHM_PRESETS.iter().find(|(name, _)| *name == word);
    if preset.is_none() {
        let right = "a size such as \"1 MiB\", or \"docker\" (64 MiB)";
        c.at(v.span(), format!("{word:?} is neither a size nor a preset"), right);
    }
    preset.map(|(_, to)| LimitShm { to: *to })
}

pub(super) fn inodes(t: &mut Table<'_, '_>, c: &mut Collector<'_>) -> Option<ExhaustShmInodes> {
    let leave = t.optional("leave").map_or(Some(0), |v| value::whole(v, 0, u32::MAX, c))?;
    Some(ExhaustShmInodes { leave })
}

pub(super) fn stale(t: &mut Table<'_, '_>, c: &mut Collector<'_>) -> Option<StaleShm> {
    let files = t.optional("files").map_or(Some(one()), |v| value::whole(v, 1, 1000, c));
    let each = size(t, "each", "each = \"33 MiB\"", c);
    Some(StaleShm { files: files?, each: each? })
}
