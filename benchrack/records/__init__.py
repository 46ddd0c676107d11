"""What was measured, as files: the flat record, the journal, a run. Reports read nothing else; it
imports the vocabulary and statistics.
"""
