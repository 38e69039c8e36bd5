"""The steps of ALBIC (Madsen, Zhou, Cao 2016, section 4.3.2), one module each."""
