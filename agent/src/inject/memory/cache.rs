//! Page cache crowds a rank's memory.

use std::{
    fs::{self, File},
    io,
    os::fd::AsRawFd,
    path::Path,
};

use ringbreaker_scenarios::{fault::PressPageCache, units::Bytes};

use super::limit::{RankLimit, refused};
use crate::{
    inject::{Ground, InjectError, Injector, RankProcess, companion::Companion},
    journal::Undo,
    sys::filesystem,
};

const FAULT: &str = "press_page_cache";
/// The file is longer than any cgroup is large, so that no page is ever found in the cache again. It is
/// a hole from end to end: reading one takes memory, and no disk.
const FILE_SIZE: u64 = 1 << 40;
/// How often pages must have been taken away: once could be a coincidence.
const TAKEN: u64 = 64;
/// The kernel counts in batches: this much below the limit is at the limit.
const MARGIN: u64 = 1 << 20;

/// The cgroup of each rank gets a limit a little above what it uses, and a helper in the same cgroup
/// reads a file without end. Page cache is dropped when somebody needs memory, so nobody is killed;
/// but everybody who takes memory has to drop some first, and pages of the rank's own program that
/// were not used for a while are dropped too.
///
/// Witness: the cgroup uses all that its limit allows, page cache among it, and counts that pages are
/// taken from it again and again.
pub(in crate::inject) struct PageCache {
    fault: PressPageCache,
    pressed: Vec<Pressed>,
    /// Without a name, so that it vanishes with this process.
    file: File,
}

/// One rank under pressure.
struct Pressed {
    rank: RankProcess,
    memory: RankLimit,
    reader: Companion,
    /// How often pages had been taken before the fault; none: not injected.
    taken: Option<u64>,
    limit: Bytes,
}

impl PageCache {
    /// Makes the file and starts the helpers, idle and outside of the cgroups.
    pub(in crate::inject) fn new(
        fault: &PressPageCache,
        ranks: Vec<RankProcess>,
        ground: &Ground,
        id: u32,
    ) -> Result<PageCache, InjectError> {
        if filesystem::is_tmpfs(&ground.directory)
            .map_err(InjectError::step(FAULT, "look at the directory of the case"))?
        {
            let reason = "the runs are kept in a tmpfs, whose files are memory and not page cache; \
                          name another place with --dir";
            return Err(InjectError::not_possible(FAULT, reason));
        }
        let path = ground.directory.join(format!("page-cache-{id}"));
        let file = nameless(&path).map_err(InjectError::step(FAULT, "make the file to read"))?;
        let mut cache = PageCache { fault: fault.clone(), pressed: Vec::new(), file };
        for rank in ranks {
            let memory = RankLimit::of(FAULT, &rank, ground, id)?;
            let (reader, _) = Companion::start(ground, "press-page-cache")
                .map_err(InjectError::step(FAULT, "start the helper that reads"))?;
            cache.pressed.push(Pressed { rank, memory, reader, taken: None, limit: Bytes(0) });
        }
        Ok(cache)
    }
}

/// A long file of holes that has lost its name.
fn nameless(path: &Path) -> io::Result<File> {
    let file = File::create(path)?;
    fs::remove_file(path)?;
    file.set_len(FILE_SIZE)?;
    Ok(file)
}

impl Injector for PageCache {
    fn undo(&self) -> Vec<Undo> {
        self.pressed.iter().map(|pressed| pressed.reader.undo()).collect()
    }

    fn inject(&mut self) -> Result<(), InjectError> {
        for pressed in &mut self.pressed {
            let step = format!("press the memory of rank {}", pressed.rank.rank);
            let (pid, file) = (std::process::id(), self.file.as_raw_fd());
            let order = format!("read /proc/{pid}/fd/{file} at {}", self.fault.rate.0);
            pressed.press(self.fault.room, &order).map_err(InjectError::step(FAULT, step))?;
        }
        Ok(())
    }

    fn witness(&mut self) -> Option<String> {
        let seen: Option<Vec<String>> = self.pressed.iter().map(Pressed::witness).collect();
        seen.map(|seen| seen.join(", "))
    }

    fn heal(&mut self) -> Result<(), InjectError> {
        for pressed in &mut self.pressed {
            let step = format!("take the pressure off rank {}", pressed.rank.rank);
            let found = pressed.relieve().map_err(InjectError::step(FAULT, step))?;
            if let Some(found) = found {
                return Err(InjectError::still_there(FAULT, found));
            }
        }
        Ok(())
    }
}

impl Pressed {
    fn press(&mut self, room: Bytes, order: &str) -> io::Result<()> {
        let cgroup = self.memory.cgroup()?;
        self.taken = Some(cgroup.pages_taken().map_err(refused)?);
        cgroup.join(self.reader.pid()).map_err(refused)?;
        self.limit = self.memory.lower(room.0, false)?;
        self.reader.say(order)
    }

    fn witness(&self) -> Option<String> {
        let before = self.taken?;
        let cgroup = self.memory.cgroup().ok()?;
        let used = cgroup.memory_usage().ok()?;
        let cached = cgroup.page_cache().ok()?;
        let taken = cgroup.pages_taken().ok()?.saturating_sub(before);
        let full = used.0 + MARGIN >= self.limit.0 && cached.0 > MARGIN;
        (full && taken >= TAKEN).then(|| {
            let RankProcess { rank, .. } = self.rank;
            let limit = self.limit;
            format!(
                "the cgroup of rank {rank} uses {used} of its limit of {limit}, {cached} of it page \
                 cache, and has lost pages {taken} times"
            )
        })
    }

    /// What is still in force afterwards; none: nothing.
    fn relieve(&mut self) -> io::Result<Option<String>> {
        if !self.reader.kill()? {
            return Ok(Some(format!("the helper process {}", self.reader.pid())));
        }
        self.memory.lift()
    }
}
