"""The test programs among cargo's messages."""

import json
import sys

for line in sys.stdin:
    message = json.loads(line)
    if message.get("executable") and message.get("profile", {}).get("test"):
        print(message["executable"])
