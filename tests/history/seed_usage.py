"""The seed's use of an algorithm with a client; only its import lines are changed."""

# ruff: noqa
# fmt: off
from openai import OpenAI
from charactermemory.history import SQLiteStorage
from charactermemory.integrations.openai import with_history
from charactermemory.history import HistoryManager
from tests.history.seed_advanced import SmartAlgorithm

# Create your custom algorithm
algorithm = SmartAlgorithm(
    max_messages=50,
    time_window_hours=12,
    importance_threshold=0.7
)

# Use with OpenAI
client = OpenAI()
history_manager = HistoryManager(
    storage=SQLiteStorage("chat.db"),
    algorithm=algorithm
)
client = with_history(history_manager=history_manager)(client)

# Use as normal
response = client.chat.completions.create(
    model="gpt-3.5-turbo",
    messages=[{"role": "user", "content": "Hello!"}]
)
