"""PURE. Native objects, what else runs or scales pods (LeaderWorkerSet, KEDA), and the parts they are made of."""
