"""Mends what Bochs 3.0 lacks to run AMX under Linux. Run in its folder of sources.

Linux gives tiles only to a CPU that can refuse them to a process (XFD: two registers, and an exception at the first use). The rest goes against Intel's
manual: tiles did not survive a switch between threads (half of their rows were saved, rows and bytes of their sizes were exchanged, and
they counted as in use when they were not); `tdpbssd` took bytes with a sign for bytes without one; and `vdpbf16ps` scaled the short displacement of a
vector in memory as that of a word.
"""

import pathlib
import re


def edit(name: str, *changes: tuple[str, str]) -> None:
    path = pathlib.Path("cpu", name)
    text = path.read_text()
    for old, new in changes:
        if new in text:
            continue
        if text.count(old) != 1:
            raise SystemExit(f"{path}: {text.count(old)} places with {old!r}, not 1: another version of Bochs?")
        text = text.replace(old, new)
    path.write_text(text)


def after(line: str, more: str) -> tuple[str, str]:
    return line, line + more


XFD = "BX_CPU_THIS_PTR msr.ia32_xfd"

edit("cpu.h", after("  Bit64u ia32_xss;\n", "  Bit64u ia32_xfd[2];\n"))
edit("init.cc", after("  BX_CPU_THIS_PTR msr.ia32_xss = 0;\n", f"  {XFD}[0] = {XFD}[1] = 0;\n"))
edit(
    "msr.cc",
    after(
        '  msr_desc[BX_MSR_XSS] = new MSR_Descriptor("MSR_IA32_XSS", BX_ISA_XSAVES);\n',
        '  msr_desc[BX_MSR_IA32_XFD] = new MSR_Descriptor("MSR_IA32_XFD", BX_ISA_AMX);\n'
        '  msr_desc[BX_MSR_IA32_XFD_ERROR] = new MSR_Descriptor("MSR_IA32_XFD_ERR", BX_ISA_AMX);\n',
    ),
    after(
        "      val64 = BX_CPU_THIS_PTR msr.ia32_xss;\n      break;\n",
        "    case BX_MSR_IA32_XFD:\n    case BX_MSR_IA32_XFD_ERROR:\n"
        f"      val64 = {XFD}[index - BX_MSR_IA32_XFD];\n      break;\n",
    ),
    (
        "    case BX_MSR_XSS:\n      {\n",
        "    case BX_MSR_IA32_XFD:\n    case BX_MSR_IA32_XFD_ERROR:\n"
        f"      {XFD}[index - BX_MSR_IA32_XFD] = val_64;\n      handleAvxModeChange();\n      break;\n"
        "    case BX_MSR_XSS:\n      {\n",
    ),
)
edit(
    "cpuid.cc",
    after(
        "      leaf->eax |= (1<<3);\n", "    if (is_cpu_extension_supported(BX_ISA_AMX))\n      leaf->eax |= (1<<4);\n"
    ),
    after(
        "      leaf->ecx = (cpu->ia32_xss_suppmask & (1 << subfunction)) != 0;\n",
        "      if (subfunction == 18) leaf->ecx |= (1<<2);\n",
    ),
)
edit(
    "proc_ctrl.cc",
    (
        "(BX_XCR0_XTILECFG_MASK | BX_XCR0_XTILEDATA_MASK)) != 0)\n    clear_amx_ok();",
        f"(BX_XCR0_XTILECFG_MASK | BX_XCR0_XTILEDATA_MASK)) != 0 || ({XFD}[0] >> 18) & 1)\n    clear_amx_ok();",
    ),
    after(
        "  if (~BX_CPU_THIS_PTR xcr0.val32 & (BX_XCR0_XTILECFG_MASK | BX_XCR0_XTILEDATA_MASK))\n    exception(BX_UD_EXCEPTION, 0);\n",
        f"  if (({XFD}[0] >> 18) & 1) {{\n    {XFD}[1] |= 1 << 18;\n    exception(BX_NM_EXCEPTION, 0);\n  }}\n",
    ),
)

edit(
    "xsave.cc",
    (
        "tilecfg.vmm16u(8+n)    = BX_CPU_THIS_PTR amx->tilecfg[n].rows;",
        "tilecfg.vmm16u(8+n) = BX_CPU_THIS_PTR amx->tilecfg[n].bytes_per_row;",
    ),
    (
        "tilecfg.vmmubyte(48+n) = BX_CPU_THIS_PTR amx->tilecfg[n].bytes_per_row;",
        "tilecfg.vmmubyte(48+n) = BX_CPU_THIS_PTR amx->tilecfg[n].rows;",
    ),
    ("(BX_CPU_THIS_PTR amx->tile_use_tracker == 0)", "(BX_CPU_THIS_PTR amx->tile_use_tracker != 0)"),
    *(
        (f"row < BX_TILE_REGISTERS; row++) {{\n      {use}_virtual_zmmword", f"row < BX_TILE_MAX_ROWS; row++) {{\n      {use}_virtual_zmmword")
        for use in ("write", "read")
    ),
)

opcode = "&BX_CPU_C::VDPBF16PS_MASK_VpsHdqWdqR, BX_ISA_AVX512_BF16, OP_Vps, OP_Hdq, "
edit("decoder/ia_opcodes_evex.def", (f"{opcode}OP_mVdq32,", f"{opcode}OP_mVdq,"))

# The letters say which factor's bytes have a sign: SS both, SU the first one, US the second one.
tiles = pathlib.Path("cpu/avx/amx.cc")
text = tiles.read_text()
for name, factors in (("DPBDSS", "xy"), ("DPBDSU", "x"), ("DPBDUS", "y")):
    begin = text.index(f"Bit32u {name}(")
    end = text.index("\n}\n", begin)
    body = text[begin:end]
    for factor in factors:
        line = re.search(rf"const Bit8[us] {factor}byte.*", body)
        if line is None:
            raise SystemExit(f"{tiles}: {name} has no {factor}byte: another version of Bochs?")
        body = body.replace(line[0], line[0].replace("Bit8u", "Bit8s"))
    text = text[:begin] + body + text[end:]
tiles.write_text(text)
