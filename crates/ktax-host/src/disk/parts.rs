use std::thread;

/// Gives each CPU a part of these, and returns what came of each part, in their order: what is read
/// from many files is unpacked and parsed, too.
pub fn in_parts<T: Send, R: Send>(all: &mut [T], part: impl Fn(&mut [T]) -> R + Sync) -> Vec<R> {
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    let most = all.len().div_ceil(cpus).max(1);
    let part = &part;
    thread::scope(|scope| {
        let parts: Vec<_> =
            all.chunks_mut(most).map(|chunk| scope.spawn(move || part(chunk))).collect();
        parts.into_iter().map(|it| it.join().expect("a part does not panic")).collect()
    })
}
