"""Networks: fabrics, one bill of materials, prices and cost, reliability, and the wide area."""
