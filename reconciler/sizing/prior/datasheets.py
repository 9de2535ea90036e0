"""Data sheets of accelerators, entered by hand in 2026-11: dense rates, bytes in powers of ten.

Those in `_COMPARED` were compared with a second source: what that states is the same to the digits that it has. Of
NVIDIA's own planner it is the same to four digits (it rounds 1979 to 1978), and so is its memory, in powers of two. T4
was corrected by it from 320 to 300 GB/s. Of A40 and L40 no second source was found.
"""

from collections.abc import Mapping

from reconciler.domain.priors import Datasheet
from reconciler.domain.records import replace

_T, _G = 1e12, 1e9


def _sheet(
    device: str,
    generation: str,
    gigabytes: float,
    gigabytes_per_s: float,
    teraflops: tuple[float, float | None, float | None],
    link_gigabytes_per_s: float,
    source: str,
    vendor: str = "nvidia",
) -> Datasheet:
    bf16, fp8, fp4 = teraflops
    return Datasheet(
        device=device,
        vendor=vendor,
        generation=generation,
        memory_bytes=gigabytes * _G,
        bandwidth_bytes_per_s=gigabytes_per_s * _G,
        bf16_flops=bf16 * _T,
        fp8_flops=fp8 and fp8 * _T,
        fp4_flops=fp4 and fp4 * _T,
        link_bytes_per_s=link_gigabytes_per_s * _G,
        source=source,
    )


_COMPARED: Mapping[str, tuple[str, ...]] = {
    "systems/*.yaml in ai-dynamo/aiconfigurator at 095f58a": (
        *("A30", "A100", "L4", "L40S", "H100", "H200", "B200", "B300", "GB200", "GB300"),
    ),
    "specs.md in winston-zhang-orz/gpu-specs at 097f0fb": ("V100", "T4", "A10", "A100-40GB"),
    "gpu_configs in cli99/llm-analysis at 54b51aa": ("A10G", "MI250X"),
    "config.py in jychen21/Habana-LLM-Viewer at 13b3a05": ("G2", "G3"),
    "compute/accelerator/README.md (memory and bandwidth) in stas00/ml-engineering at 0074473": ("GH200", "MI300X"),
}
_COMPARED_WITH = {device: source for source, devices in _COMPARED.items() for device in devices}
DATASHEETS: Mapping[str, Datasheet] = {
    sheet.device: replace(sheet, source=f"{sheet.source}; compared 2026-11 with {_COMPARED_WITH[sheet.device]}")
    if sheet.device in _COMPARED_WITH
    else sheet
    for sheet in (
        # device, generation, GB, GB/s, teraflops of bf16, fp8 and fp4, GB/s of links in one direction
        _sheet("V100", "volta", 32, 900, (125, None, None), 150, "NVIDIA V100 data sheet, 2020-01"),
        _sheet("T4", "turing", 16, 300, (65, None, None), 16, "NVIDIA T4 data sheet, 2019-03"),
        _sheet("A10", "ampere-gddr", 24, 600, (125, None, None), 32, "NVIDIA A10 data sheet, 2021-04"),
        _sheet("A10G", "ampere-gddr", 24, 600, (70, None, None), 32, "AWS and NVIDIA A10G data sheet, 2021-11"),
        _sheet("A30", "ampere", 24, 933, (165, None, None), 100, "NVIDIA A30 data sheet, 2022-03"),
        _sheet("A40", "ampere-gddr", 48, 696, (149.7, None, None), 56, "NVIDIA A40 data sheet, 2022-03"),
        _sheet("A100-40GB", "ampere", 40, 1555, (312, None, None), 300, "NVIDIA A100 data sheet, 2021-06"),
        _sheet("A100", "ampere", 80, 2039, (312, None, None), 300, "NVIDIA A100 80GB SXM data sheet, 2021-06"),
        _sheet("L4", "ada", 24, 300, (121, 242, None), 32, "NVIDIA L4 data sheet, 2023-03"),
        _sheet("L40", "ada", 48, 864, (181, 362, None), 32, "NVIDIA L40 data sheet, 2023-01"),
        _sheet("L40S", "ada", 48, 864, (362, 733, None), 32, "NVIDIA L40S data sheet, 2023-08"),
        _sheet("H100", "hopper", 80, 3350, (989, 1979, None), 450, "NVIDIA H100 SXM data sheet, 2024-03"),
        _sheet("GH200", "hopper", 96, 4000, (989, 1979, None), 450, "NVIDIA GH200 data sheet, 2023-08"),
        _sheet("H200", "hopper", 141, 4800, (989, 1979, None), 450, "NVIDIA H200 data sheet, 2024-10"),
        _sheet("B200", "blackwell", 180, 7700, (2250, 4500, 9000), 900, "NVIDIA DGX B200 data sheet, 2024-11"),
        _sheet("B300", "blackwell", 268, 7750, (2250, 4500, 14000), 900, "NVIDIA DGX B300 data sheet, 2025-08"),
        _sheet("GB200", "blackwell", 186, 8000, (2500, 5000, 10000), 900, "NVIDIA GB200 NVL72 data sheet, 2024-11"),
        _sheet("GB300", "blackwell", 277, 8000, (2500, 5000, 15000), 900, "NVIDIA GB300 NVL72 data sheet, 2025-08"),
        _sheet("MI250X", "cdna2", 128, 3277, (383, None, None), 250, "AMD Instinct MI250X data sheet, 2021-11", "amd"),
        _sheet("MI300X", "cdna3", 192, 5300, (1307, 2615, None), 448, "AMD Instinct MI300X data sheet, 2023-12", "amd"),
        _sheet("G2", "gaudi2", 96, 2460, (432, 865, None), 150, "Intel Gaudi 2 white paper, 2023-06", "intel"),
        _sheet("G3", "gaudi3", 128, 3700, (1835, 1835, None), 600, "Intel Gaudi 3 white paper, 2024-04", "intel"),
    )
}
"""By device, as accelerators are named; `A100` is the one with 80 GB."""
