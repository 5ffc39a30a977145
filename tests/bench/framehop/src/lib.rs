// SPDX-License-Identifier: MIT OR Apache-2.0
//! framehop behind two C functions, as fast as its interface allows: modules added beforehand, one cache, every read of
//! the stack a plain load.

use std::ffi::{c_char, c_int, c_void};
use std::slice;

use framehop::{
    CacheNative, ExplicitModuleSectionInfo, Module, MustNotAllocateDuringUnwind, UnwindRegsNative,
    Unwinder, UnwinderNative,
};

type Bytes = &'static [u8];

struct Walker {
    unwinder: UnwinderNative<Bytes, MustNotAllocateDuringUnwind>,
    cache: CacheNative<MustNotAllocateDuringUnwind>,
}

// One thread walks: the one that prepared, in its handler.
static mut WALKER: *mut Walker = std::ptr::null_mut();

/// The object's unwind sections, by its program headers: .eh_frame ends at the latest where its segment does.
unsafe fn module(info: &libc::dl_phdr_info) -> Option<Module<Bytes>> {
    let headers = slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum));
    let base = info.dlpi_addr;
    let loads = || headers.iter().filter(|h| h.p_type == libc::PT_LOAD);
    let text = loads().find(|h| h.p_flags & libc::PF_X != 0)?;
    let header = headers
        .iter()
        .find(|h| h.p_type == libc::PT_GNU_EH_FRAME)?;
    let header_at = base + header.p_vaddr;
    let header_bytes = slice::from_raw_parts(header_at as *const u8, header.p_memsz as usize);
    if header_bytes[1] != 0x1b {
        return None; // not pcrel sdata4, as all linkers write it
    }
    let relative = i32::from_ne_bytes(header_bytes[4..8].try_into().ok()?);
    let frames_at = (header_at + 4).wrapping_add_signed(i64::from(relative));
    let segment = loads()
        .find(|h| (base + h.p_vaddr..base + h.p_vaddr + h.p_memsz).contains(&frames_at))?;
    let frames_end = base + segment.p_vaddr + segment.p_memsz;
    let sections = ExplicitModuleSectionInfo {
        base_svma: 0,
        text_svma: Some(text.p_vaddr..text.p_vaddr + text.p_memsz),
        eh_frame_svma: Some(frames_at - base..frames_end - base),
        eh_frame: Some(slice::from_raw_parts(
            frames_at as *const u8,
            (frames_end - frames_at) as usize,
        )),
        eh_frame_hdr_svma: Some(header.p_vaddr..header.p_vaddr + header.p_memsz),
        eh_frame_hdr: Some(header_bytes),
        ..Default::default()
    };
    let low = base + loads().map(|h| h.p_vaddr).min()?;
    let high = base + loads().map(|h| h.p_vaddr + h.p_memsz).max()?;
    Some(Module::new(String::new(), low..high, base, sections))
}

unsafe extern "C" fn add_object(
    info: *mut libc::dl_phdr_info,
    _size: usize,
    data: *mut c_void,
) -> c_int {
    let walker = &mut *data.cast::<Walker>();
    if let Some(module) = module(&*info) {
        walker.unwinder.add_module(module);
    }
    0
}

/// # Safety
/// Called by the thread whose handler walks, before the first walk.
#[no_mangle]
pub unsafe extern "C" fn bench_framehop_prepare() -> *const c_char {
    let walker = Box::into_raw(Box::new(Walker {
        unwinder: UnwinderNative::new(),
        cache: CacheNative::new_in(),
    }));
    libc::dl_iterate_phdr(Some(add_object), walker.cast());
    WALKER = walker;
    std::ptr::null()
}

#[cfg(target_arch = "x86_64")]
fn registers(pc: u64, sp: u64, fp: u64, _lr: u64) -> UnwindRegsNative {
    UnwindRegsNative::new(pc, sp, fp)
}

#[cfg(target_arch = "aarch64")]
fn registers(_pc: u64, sp: u64, fp: u64, lr: u64) -> UnwindRegsNative {
    UnwindRegsNative::new(lr, sp, fp)
}

/// # Safety
/// `frames` has room for `capacity` addresses; the registers are those of interrupted code of this process.
#[no_mangle]
pub unsafe extern "C" fn bench_framehop_walk(
    pc: u64,
    sp: u64,
    fp: u64,
    lr: u64,
    frames: *mut u64,
    capacity: usize,
) -> usize {
    let walker = &mut *WALKER;
    let mut read = |address: u64| Ok(*(address as *const u64));
    let mut count = 0;
    let mut iterator = walker.unwinder.iter_frames(
        pc,
        registers(pc, sp, fp, lr),
        &mut walker.cache,
        &mut read,
    );
    while count < capacity {
        let Ok(Some(frame)) = iterator.next() else {
            break;
        };
        frames.add(count).write(frame.address());
        count += 1;
    }
    count
}
