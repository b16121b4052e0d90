//! Whether there are tiles: the CPU has to have them, the system to save them, and this process to be allowed to use them.

use std::arch::x86_64::{__cpuid, __cpuid_count, _xgetbv};

/// AMX with products of bytes and of bf16, for this process and all of its threads. On Linux this asks for the permission that it takes,
/// and a system that refuses has no such level.
pub(super) fn usable() -> bool {
    in_cpu() && saved_by_system() && permitted()
}

/// Tiles of 16 rows of 64 bytes, eight of them, and both kinds of products.
fn in_cpu() -> bool {
    const BF16_TILE_INT8: u32 = 1 << 22 | 1 << 24 | 1 << 25;
    if __cpuid(0).eax < 0x1d {
        return false;
    }
    let (features, palette) = (__cpuid_count(7, 0).edx, __cpuid_count(0x1d, 1));
    let (row_bytes, names, rows) = (palette.ebx & 0xffff, palette.ebx >> 16, palette.ecx & 0xffff);
    features & BF16_TILE_INT8 == BF16_TILE_INT8 && (row_bytes, names, rows) == (64, 8, 16)
}

/// The system keeps the tiles of each thread when it switches between threads.
fn saved_by_system() -> bool {
    const OSXSAVE: u32 = 1 << 27;
    const TILES: u64 = 1 << 17 | 1 << 18;
    // SAFETY: OSXSAVE says that there is such an instruction.
    __cpuid(1).ecx & OSXSAVE != 0 && unsafe { _xgetbv(0) } & TILES == TILES
}

/// Linux lets a process use tiles once it has asked, because they make the frames of its signals larger; it refuses where a signal stack
/// of a thread is too small for that.
#[cfg(target_os = "linux")]
fn permitted() -> bool {
    const ARCH_PRCTL: isize = 158;
    const ARCH_REQ_XCOMP_PERM: usize = 0x1023;
    const XFEATURE_XTILE_DATA: usize = 18;
    let answer: isize;
    // SAFETY: a system call that takes two numbers, and at most grants something; the system changes rcx and r11 besides rax.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") ARCH_PRCTL => answer,
            in("rdi") ARCH_REQ_XCOMP_PERM,
            in("rsi") XFEATURE_XTILE_DATA,
            out("rcx") _,
            out("r11") _,
            options(nostack)
        );
    }
    answer == 0
}

/// Nowhere else has it been tried.
#[cfg(not(target_os = "linux"))]
fn permitted() -> bool {
    false
}
