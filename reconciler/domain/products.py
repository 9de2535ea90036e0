"""Common product labels of accelerators, as node discovery and clouds write them, and the short names they mean.

They only recognise: which nodes to select when a choice changes is never guessed from this table.
"""

PRODUCT_KEYS = (
    "nvidia.com/gpu.product",
    "amd.com/gpu.product",
    "amd.com/gpu.product-name",
    "intel.com/gpu.product",
    "gpu.intel.com/product",
    "habana.ai/gaudi.product",
    "cloud.google.com/gke-accelerator",
    "karpenter.k8s.aws/instance-gpu-name",
    "k8s.amazonaws.com/accelerator",
    "gpu.nvidia.com/class",
)
"""Node label keys whose value names a product, in the order they are looked at."""

MACHINE_KEYS = (
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/instance-type",
    "karpenter.k8s.aws/instance-type",
    "karpenter.k8s.aws/instance-family",
    "cloud.google.com/gke-nodepool",
    "cloud.google.com/machine-family",
    "eks.amazonaws.com/nodegroup",
    "kubernetes.azure.com/agentpool",
    "kubernetes.io/hostname",
)
"""Node label keys whose value means machines of one kind, and so one kind of accelerators."""

PRODUCTS = {
    "nvidia-b200": "B200",
    "nvidia-gb200": "GB200",
    "nvidia-h200": "H200",
    "nvidia-h200-141gb-hbm3e": "H200",
    "nvidia-h200-141gb": "H200",
    "nvidia-h100-80gb-hbm3": "H100",
    "nvidia-h100-pcie": "H100",
    "nvidia-h100-nvl": "H100",
    "nvidia-h100-80gb": "H100",
    "nvidia-h100-mega-80gb": "H100",
    "nvidia-a100-sxm4-80gb": "A100",
    "nvidia-a100-sxm4-40gb": "A100",
    "nvidia-a100-pcie-80gb": "A100",
    "nvidia-a100-80gb-pcie": "A100",
    "nvidia-a100-pcie-40gb": "A100",
    "nvidia-a100-80gb": "A100",
    "nvidia-tesla-a100": "A100",
    "nvidia-l40s": "L40S",
    "nvidia-l40": "L40",
    "nvidia-l4": "L4",
    "nvidia-a10g": "A10G",
    "nvidia-a10": "A10",
    "nvidia-a40": "A40",
    "nvidia-tesla-t4": "T4",
    "tesla-t4": "T4",
    "tesla-v100-sxm2-16gb": "V100",
    "tesla-v100-sxm2-32gb": "V100",
    "nvidia-tesla-v100": "V100",
    "amd-mi300x-192gb": "MI300X",
    "amd-mi300x-192g": "MI300X",
    "amd-instinct-mi300x-oam": "MI300X",
    "amd-instinct-mi250x": "MI250X",
    "intel-gaudi-2-96gb": "G2",
    "intel-gaudi-3-128gb": "G3",
    "h200": "H200",
    "h100": "H100",
    "a100": "A100",
    "l40s": "L40S",
    "l4": "L4",
    "a10g": "A10G",
    "t4": "T4",
    "v100": "V100",
}
"""Label value in lower case -> the name of the accelerator."""

VENDORS = {
    "nvidia": ("nvidia.com/gpu.product", "nvidia.com/gpu"),
    "tesla": ("nvidia.com/gpu.product", "nvidia.com/gpu"),
    "amd": ("amd.com/gpu.product", "amd.com/gpu"),
    "intel": ("intel.com/gpu.product", "intel.com/gpu"),
}
"""First word of a product label -> the vendor's label key and its device resource."""
