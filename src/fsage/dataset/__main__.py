"""python -m fsage.dataset > docs/records.md"""

from fsage.dataset.columns import page

print(page())
